"""The end of a preparation: visible at once or not at all, counted rightly, and only for the newest version."""

import asyncio
from typing import Any

import pytest

from penstock.blobs import Stored
from penstock.database import Session
from penstock.documents import (
    Members,
    add_members,
    clear_old_versions,
    compact_tallies,
    delete_document,
    history,
    keep_pages,
    list_dead_versions,
    list_documents,
    load_work,
    reconcile,
)
from penstock.engine.job import Job
from penstock.engine.outcome import Cancelled, Done
from penstock.extraction.reading import Page
from tests.documents.conftest import Office, pieces


async def tally(office: Office) -> tuple[int, int, int, int]:
    [row] = await office.run(
        "select coalesce(sum(documents), 0)::int, coalesce(sum(chunks), 0)::int, coalesce(sum(words), 0)::int, "
        "coalesce(sum(deleted), 0)::int from penstock.tallies"
    )
    return row[0], row[1], row[2], row[3]


async def test_work_has_all_that_the_pipeline_needs(office: Office) -> None:
    made = await office.add("a.txt", b"water", metadata={"n": 1})
    shown = await office.show(made.id)
    async with office.app.database.pool.session() as session:
        work = await load_work(session, made.id, shown.version_id)
        assert work is not None
        assert await load_work(session, made.id, shown.version_id + 1) is None
        assert await load_work(session, made.id + 1, shown.version_id) is None
    assert (work.blob_key, work.size, work.name, work.depth, work.live) == (shown.key, 5, "a.txt", 0, None)
    assert (work.collection_name, work.share, work.model, work.chunk_size) == ("files", "files", "static", 1000)
    assert work.metadata == {"n": 1}
    await delete_document(office.app, made.id)
    async with office.app.database.pool.session() as session:
        assert await load_work(session, made.id, shown.version_id) is None


async def test_publishing_shows_the_version_with_its_facts(office: Office) -> None:
    made = await office.add()
    await office.shop.advance(5)
    gaps = [{"page": 2, "reason": "too dark"}]
    assert await office.publish(await office.claim_one(), chunks=3, words=20, gaps=gaps, pages=2)
    shown = await office.show(made.id)
    assert (shown.pages, shown.chunks, shown.words, shown.title, shown.media_type) == (2, 3, 20, "T", "text/plain")
    assert shown.gaps == gaps
    assert shown.prepared_at is not None
    [_, event] = await history(office.app, made.id)
    assert event.details["chunks"] == 3
    assert 5 <= event.details["waited"] <= event.details["seconds"] < 60


async def test_counts_follow_every_change(office: Office) -> None:
    made = await office.ready(content=b"one")
    assert await tally(office) == (1, 2, 10, 0)
    await office.add(content=b"two", replace=True)
    assert await tally(office) == (1, 2, 10, 0)  # the old one is still seen
    await office.publish(await office.claim_one(), chunks=5, words=7)
    assert await tally(office) == (1, 5, 7, 0)
    await office.ready("b.txt", b"three")
    assert await tally(office) == (2, 7, 17, 0)
    await delete_document(office.app, made.id)
    await delete_document(office.app, made.id)  # again is the same
    assert await tally(office) == (1, 2, 10, 1)
    assert await compact_tallies(office.app.database) == 4
    assert await compact_tallies(office.app.database) == 0
    assert await tally(office) == (1, 2, 10, 1)
    assert len(await office.rows("tallies")) == 1


async def test_counts_are_added_up_while_others_add(office: Office) -> None:
    """Nothing is lost and nothing is counted twice, whoever reads meanwhile."""
    await office.run(
        "insert into penstock.tallies (collection_id, documents, chunks, words) select 1, 1, 2, 3 from generate_series(1, 500)"
    )

    async def add() -> None:
        for _ in range(50):
            await office.run(
                "insert into penstock.tallies (collection_id, documents, chunks, words) values (1, 0, 0, 0)"
            )
            assert await tally(office) == (500, 1000, 1500, 0)

    async def compact() -> None:
        for _ in range(20):
            await compact_tallies(office.app.database, bite=60)

    await asyncio.gather(add(), compact(), compact())
    assert await tally(office) == (500, 1000, 1500, 0)


async def test_a_deleted_document_is_not_published(office: Office) -> None:
    made = await office.add()
    job = await office.claim_one()
    await delete_document(office.app, made.id)
    assert not await office.publish(job)
    assert await office.status(made.id) == "deleted"
    assert await tally(office) == (0, 0, 0, 1)


# -- what is left behind ------------------------------------------------------------------------------------------------


async def nothing_indexed(tx: Session, *, version: int) -> int:
    return 0


async def dead_versions(office: Office) -> list[int]:
    async with office.app.database.pool.session() as session:
        return [each.version for each in await list_dead_versions(session)]


async def test_a_version_is_dead_when_a_newer_one_is_live(office: Office) -> None:
    made = await office.ready(content=b"one")
    old = (await office.show(made.id)).version_id
    await office.add(content=b"two", replace=True)
    assert await dead_versions(office) == []
    await office.publish(await office.claim_one())
    assert await dead_versions(office) == [old]


async def test_a_version_that_never_was_live_is_dead_when_it_is_replaced_and_its_job_is_over(office: Office) -> None:
    made = await office.add(content=b"one")
    old = (await office.show(made.id)).version_id
    stale = await office.claim_one()
    await office.add(content=b"two", replace=True)
    assert await dead_versions(office) == []  # its job may still write
    await office.shop.settle(await office.worker(), (stale, Cancelled()))
    assert await dead_versions(office) == [old]
    assert await office.status(made.id) == "queued"


async def test_dead_versions_are_cleared_once(office: Office) -> None:
    made = await office.ready()
    version = (await office.show(made.id)).version_id
    async with office.app.transaction() as tx:
        await keep_pages(tx, version, [Page(number, "x") for number in range(1, 1500)])
    await office.add(content=b"two", replace=True)
    await office.publish(await office.claim_one())
    assert await dead_versions(office) == [version]
    left = [3]

    async def clear(tx: Session, *, version: int) -> int:
        left[0] -= 1
        return max(left[0], 0)

    assert await clear_old_versions(office.app.database, clear) == 1
    assert left[0] <= 0
    assert await office.rows("pages") == []
    assert await clear_old_versions(office.app.database, clear) == 0


async def test_a_document_whose_job_ended_without_a_word_does_not_wait_for_ever(office: Office) -> None:
    made = await office.add()
    waiting = await office.add("b.txt")
    job, _ = await office.claim()
    await office.shop.settle(await office.worker(), (job, Done()))
    assert (await reconcile(office.app.database)).failed == 1
    shown = await office.show(made.id)
    assert (shown.status, dict(shown.error or {})["class"]) == ("failed", "Abandoned")
    assert await office.status(waiting.id) == "processing"
    assert (await reconcile(office.app.database)).failed == 0


# -- members ------------------------------------------------------------------------------------------------------------


async def store(office: Office, content: bytes) -> Stored:
    return await office.store.write(pieces(content), most=1000)


async def publish_with(office: Office, job: Job, **members: bytes) -> Members:
    """An archive is published together with what is inside."""
    import json

    from penstock.documents import publish

    args = json.loads(job.args)
    inside = [(name.replace("__", "/"), await store(office, content)) for name, content in members.items()]
    async with office.shop.context(job, await office.worker(), office.kind).finish() as tx:
        work = await load_work(tx, args["document"], args["version"])
        assert work is not None
        assert await publish(tx, work, media_type="application/zip", pages=0, chunks=0, words=0)
        return await add_members(tx, office.app, work, inside)


async def test_members_become_documents_with_jobs(office: Office) -> None:
    made = await office.add("a.zip", b"zip", uploaded_by="ada", metadata={"n": 1})
    done = await publish_with(office, await office.claim_one(), one=b"1", folder__two=b"2", three=b"2")
    assert (done.added, done.replaced, done.deleted, len(done.unneeded)) == (3, 0, 0, 1)
    members = await list_documents(office.app, parent=made.id)
    assert [each.name for each in members] == ["a.zip!/one", "a.zip!/folder/two", "a.zip!/three"]
    assert {(each.depth, each.uploaded_by, each.status) for each in members} == {(1, "ada", "queued")}
    assert members[0].metadata == {"n": 1}
    assert {job.id for job in await office.claim()} == {each.job for each in members}
    assert await office.events(members[0].id) == ["accepted"]
    assert len(await office.rows("blobs")) == 3


async def test_publishing_the_same_members_again_changes_nothing(office: Office) -> None:
    made = await office.add("a.zip", b"zip")
    first = await publish_with(office, await office.claim_one(), one=b"1", two=b"2", three=b"3")
    jobs = {job.id: job for job in await office.claim()}
    for job in jobs.values():
        await office.publish(job)
    await office.add("a.zip", b"other zip", replace=True)
    again = await publish_with(office, await office.claim_one(), one=b"1", two=b"changed", four=b"4")
    assert (again.added, again.replaced, again.deleted) == (1, 1, 1)
    members = {each.name: each for each in await list_documents(office.app, parent=made.id)}
    assert {name: (each.status, each.version) for name, each in members.items()} == {
        "a.zip!/one": ("ready", 1),
        "a.zip!/two": ("queued", 2),
        "a.zip!/four": ("queued", 1),
    }
    assert set(again.documents) == {each.id for each in members.values()}
    assert len(set(first.documents) - set(again.documents)) == 1


async def test_members_with_one_name_and_names_that_are_taken(office: Office) -> None:
    made = await office.add("a.zip", b"zip")
    job = await office.claim_one()
    await office.add("a.zip!/one", b"an upload of this name")
    work_members: list[tuple[str, Any]] = [("one", b"1"), ("../one", b"2"), ("/one", b"3"), ("\0", b"4")]
    import json

    args = json.loads(job.args)
    inside = [(name, await store(office, content)) for name, content in work_members]
    async with office.shop.context(job, await office.worker(), office.kind).finish() as tx:
        work = await load_work(tx, args["document"], args["version"])
        assert work is not None
        await add_members(tx, office.app, work, inside)
    assert [each.name for each in await list_documents(office.app, parent=made.id)] == [
        "a.zip!/one (2)",
        "a.zip!/one (3)",
        "a.zip!/one (4)",
        "a.zip!/unnamed",
    ]


async def test_members_go_with_their_parent(office: Office) -> None:
    made = await office.add("a.zip", b"zip")
    await publish_with(office, await office.claim_one(), inner=b"1", two=b"2")
    inner, other = await office.claim()
    await publish_with(office, inner, deep=b"3")
    await office.publish(other)
    assert await tally(office) == (3, 2, 10, 0)
    await delete_document(office.app, made.id)
    assert await list_documents(office.app) == []
    assert await tally(office) == (0, 0, 0, 4)
    waiting = "select kind from penstock.jobs join penstock.lanes on lanes.id = lane"
    assert [row["kind"] for row in await office.run(waiting)] == ["remove_documents"]


async def test_an_interrupted_deletion_is_finished_later(office: Office) -> None:
    made = await office.add("a.zip", b"zip")
    await publish_with(office, await office.claim_one(), one=b"1")
    await office.run(
        "update penstock.documents set state = 'deleted', live_id = null, deleted_at = penstock.now() where id = $1",
        made.id,
    )
    assert (await reconcile(office.app.database)).deleted == 1
    assert await list_documents(office.app) == []
    assert (await reconcile(office.app.database)).deleted == 0


async def test_an_archive_that_is_not_the_newest_brings_nothing(office: Office) -> None:
    await office.add("a.zip", b"zip")
    stale = await office.claim_one()
    import json

    args = json.loads(stale.args)
    async with office.app.database.pool.session() as session:
        work = await load_work(session, args["document"], args["version"])
    assert work is not None
    await office.add("a.zip", b"new zip", replace=True)
    inside = await store(office, b"1")
    async with office.app.transaction() as tx:
        done = await add_members(tx, office.app, work, [("one", inside)])
    assert (done.added, list(done.unneeded)) == (0, [inside.key])


@pytest.mark.parametrize("most", [1, 2])
async def test_an_archive_is_replaced_while_it_is_deleted(office: Office, most: int) -> None:
    """Locks in different orders end by themselves, and what is deleted stays deleted."""
    made = await office.add("a.zip", b"zip")
    await publish_with(office, await office.claim_one(), one=b"1", two=b"2")
    await office.add("a.zip", b"new zip", replace=True)
    jobs = {job.id: job for job in await office.claim()}
    job = jobs[(await office.show(made.id)).job or 0]
    await asyncio.gather(
        delete_document(office.app, made.id),
        publish_with(office, job, one=b"changed", two=b"changed"),
        return_exceptions=True,
    )
    assert await office.status(made.id) == "deleted"
    await reconcile(office.app.database)
    assert await list_documents(office.app) == []
