"""What is put right every minute: documents that wait for nobody, and what a deletion has left behind."""

from penstock.documents import create_collection, reconcile, retry_document
from penstock.engine.job import Done
from tests.documents.conftest import DocumentQueue


async def test_a_document_whose_job_is_over_has_failed(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.txt")
    await document_queue.job_queue.settle(await document_queue.worker(), (await document_queue.claim_one(), Done()))
    other = await document_queue.add("b.txt", b"other")
    assert (await reconcile(document_queue.app.database)).failed == 1
    assert (await document_queue.status(made.id), await document_queue.status(other.id)) == ("failed", "queued")
    [finding] = await document_queue.rows("findings")
    assert (finding["check_name"], finding["document_id"], finding["repair"]) == (
        "jobs",
        made.id,
        "It is marked as failed, and can be retried.",
    )
    assert finding["ended_at"] is not None
    await retry_document(document_queue.app, made.id)
    assert (await reconcile(document_queue.app.database)).failed == 0


async def test_many_that_wait_are_looked_at_in_pages(document_queue: DocumentQueue) -> None:
    numbers = [(await document_queue.add(f"{number}.txt", b"%d" % number)).id for number in range(5)]
    await document_queue.run(
        "delete from penstock.jobs where id in (select job_id from penstock.documents where id = any ($1))", numbers[3:]
    )
    assert (await reconcile(document_queue.app.database, batch=2)).failed == 2
    assert [await document_queue.status(number) for number in numbers] == ["queued"] * 3 + ["failed"] * 2


async def test_a_document_that_got_another_job_meanwhile_is_left_alone(document_queue: DocumentQueue) -> None:
    """It was seen without a job; when it is locked, it has one."""
    from penstock.documents.integrity.run import _fail

    made = await document_queue.add("a.txt")
    assert await _fail(document_queue.app.database, [made.id]) == 0
    assert await document_queue.status(made.id) == "queued"
    assert await document_queue.rows("findings") == []


async def test_what_a_deletion_has_left_behind_is_deleted(document_queue: DocumentQueue) -> None:
    await create_collection(document_queue.app, "more")
    parent, member = await document_queue.add("mail.eml"), await document_queue.add("mail.eml!/a.txt", b"inside")
    stray = await document_queue.add("c.txt", b"stray", collection="more")
    kept = await document_queue.add("kept.txt", b"kept")
    await document_queue.run(
        "update penstock.documents set parent_id = $1, depth = 1 where id = $2", parent.id, member.id
    )
    await document_queue.run(
        "update penstock.documents set state = 'deleted', deleted_at = penstock.now() where id = $1", parent.id
    )
    await document_queue.run("update penstock.collections set deleted_at = penstock.now() where name = 'more'")
    assert (await reconcile(document_queue.app.database)).deleted == 2
    states = {row["id"]: row["state"] for row in await document_queue.rows("documents")}
    assert (states[member.id], states[stray.id], states[kept.id]) == ("deleted", "deleted", "queued")
    assert await document_queue.rows("findings") == [], "the deletion might have been under way"
    assert (await reconcile(document_queue.app.database)).deleted == 0


async def test_what_a_collection_has_left_behind_for_long_is_a_finding(document_queue: DocumentQueue) -> None:
    stray = await document_queue.add("c.txt")
    await document_queue.run("update penstock.collections set deleted_at = penstock.now() - interval '1 hour'")
    assert (await reconcile(document_queue.app.database)).deleted == 1
    [finding] = await document_queue.rows("findings")
    assert (finding["check_name"], finding["document_id"], finding["repair"]) == (
        "orphans",
        stray.id,
        "It was deleted.",
    )
