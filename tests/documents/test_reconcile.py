"""What is put right every minute: documents that wait for nobody, and what a deletion has left behind."""

from penstock.documents import create_collection, reconcile, retry_document
from penstock.engine.outcome import Done
from tests.documents.conftest import Office


async def test_a_document_whose_job_is_over_has_failed(office: Office) -> None:
    made = await office.add("a.txt")
    await office.shop.settle(await office.worker(), (await office.claim_one(), Done()))
    other = await office.add("b.txt", b"other")
    assert (await reconcile(office.app.database)).failed == 1
    assert (await office.status(made.id), await office.status(other.id)) == ("failed", "queued")
    [finding] = await office.rows("findings")
    assert (finding["check_name"], finding["document_id"], finding["repair"]) == (
        "jobs",
        made.id,
        "It has failed, and can be retried.",
    )
    assert finding["ended_at"] is not None
    await retry_document(office.app, made.id)
    assert (await reconcile(office.app.database)).failed == 0


async def test_many_that_wait_are_looked_at_in_pages(office: Office) -> None:
    numbers = [(await office.add(f"{number}.txt", b"%d" % number)).id for number in range(5)]
    await office.run(
        "delete from penstock.jobs where id in (select job_id from penstock.documents where id = any ($1))", numbers[3:]
    )
    assert (await reconcile(office.app.database, bite=2)).failed == 2
    assert [await office.status(number) for number in numbers] == ["queued"] * 3 + ["failed"] * 2


async def test_a_document_that_got_another_job_meanwhile_is_left_alone(office: Office) -> None:
    """It was seen without a job; when it is locked, it has one."""
    from penstock.documents.reconcile import _fail

    made = await office.add("a.txt")
    assert await _fail(office.app.database, [made.id]) == 0
    assert await office.status(made.id) == "queued"
    assert await office.rows("findings") == []


async def test_what_a_deletion_has_left_behind_is_deleted(office: Office) -> None:
    await create_collection(office.app, "more")
    parent, member = await office.add("mail.eml"), await office.add("mail.eml!/a.txt", b"inside")
    stray = await office.add("c.txt", b"stray", collection="more")
    kept = await office.add("kept.txt", b"kept")
    await office.run("update penstock.documents set parent_id = $1, depth = 1 where id = $2", parent.id, member.id)
    await office.run(
        "update penstock.documents set state = 'deleted', deleted_at = penstock.now() where id = $1", parent.id
    )
    await office.run("update penstock.collections set deleted_at = penstock.now() where name = 'more'")
    assert (await reconcile(office.app.database)).deleted == 2
    states = {row["id"]: row["state"] for row in await office.rows("documents")}
    assert (states[member.id], states[stray.id], states[kept.id]) == ("deleted", "deleted", "queued")
    assert await office.rows("findings") == [], "the deletion might have been under way"
    assert (await reconcile(office.app.database)).deleted == 0


async def test_what_a_collection_has_left_behind_for_long_is_a_finding(office: Office) -> None:
    stray = await office.add("c.txt")
    await office.run("update penstock.collections set deleted_at = penstock.now() - interval '1 hour'")
    assert (await reconcile(office.app.database)).deleted == 1
    [finding] = await office.rows("findings")
    assert (finding["check_name"], finding["document_id"], finding["repair"]) == (
        "orphans",
        stray.id,
        "It was deleted.",
    )
