"""The end of a preparation: visible at once or not at all, counted rightly, and only for the newest version."""

import asyncio
from typing import Any

import pytest

from penstock.blobs import StoredBlob
from penstock.database import Session
from penstock.documents import (
    Attachments,
    add_members,
    clear_old_versions,
    compact_tallies,
    delete_document,
    keep_pages,
    list_documents,
    list_events,
    load_work,
    reconcile,
)
from penstock.documents.deletion.purge import list_dead_versions
from penstock.engine.job import Cancelled, Done, Job
from penstock.extraction.result import Page
from tests.documents.conftest import DocumentQueue, pieces


async def tally(document_queue: DocumentQueue) -> tuple[int, int, int, int]:
    [row] = await document_queue.run(
        "select coalesce(sum(documents), 0)::int, coalesce(sum(chunks), 0)::int, coalesce(sum(words), 0)::int, "
        "coalesce(sum(deleted), 0)::int from penstock.tallies"
    )
    return row[0], row[1], row[2], row[3]


async def test_work_has_all_that_the_pipeline_needs(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.txt", b"water", metadata={"n": 1})
    shown = await document_queue.show(made.id)
    async with document_queue.app.database.pool.session() as session:
        work = await load_work(session, made.id, shown.version_id)
        assert work is not None
        assert await load_work(session, made.id, shown.version_id + 1) is None
        assert await load_work(session, made.id + 1, shown.version_id) is None
    assert (work.blob_key, work.size, work.name, work.depth, work.live) == (shown.key, 5, "a.txt", 0, None)
    assert (work.collection_name, work.fairness_key, work.model, work.chunk_size) == ("files", "files", "static", 1000)
    assert work.metadata == {"n": 1}
    await delete_document(document_queue.app, made.id)
    async with document_queue.app.database.pool.session() as session:
        assert await load_work(session, made.id, shown.version_id) is None


async def test_publishing_shows_the_version_with_its_facts(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    await document_queue.job_queue.advance(5)
    gaps = [{"page": 2, "reason": "too dark"}]
    assert await document_queue.publish(await document_queue.claim_one(), chunks=3, words=20, gaps=gaps, pages=2)
    shown = await document_queue.show(made.id)
    assert (shown.pages, shown.chunks, shown.words, shown.title, shown.media_type) == (2, 3, 20, "T", "text/plain")
    assert shown.gaps == gaps
    assert shown.prepared_at is not None
    [_, event] = await list_events(document_queue.app, made.id)
    assert event.details["chunks"] == 3
    assert 5 <= event.details["waited"] <= event.details["seconds"] < 60


async def test_counts_follow_every_change(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready(content=b"one")
    assert await tally(document_queue) == (1, 2, 10, 0)
    await document_queue.add(content=b"two", replace=True)
    assert await tally(document_queue) == (1, 2, 10, 0)  # the old one is still seen
    await document_queue.publish(await document_queue.claim_one(), chunks=5, words=7)
    assert await tally(document_queue) == (1, 5, 7, 0)
    await document_queue.ready("b.txt", b"three")
    assert await tally(document_queue) == (2, 7, 17, 0)
    await delete_document(document_queue.app, made.id)
    await delete_document(document_queue.app, made.id)  # again is the same
    assert await tally(document_queue) == (1, 2, 10, 1)
    assert await compact_tallies(document_queue.app.database) == 4
    assert await compact_tallies(document_queue.app.database) == 0
    assert await tally(document_queue) == (1, 2, 10, 1)
    assert len(await document_queue.rows("tallies")) == 1


async def test_counts_are_added_up_while_others_add(document_queue: DocumentQueue) -> None:
    """Nothing is lost and nothing is counted twice, whoever reads meanwhile."""
    await document_queue.run(
        "insert into penstock.tallies (collection_id, documents, chunks, words) select 1, 1, 2, 3 from generate_series(1, 500)"
    )

    async def add() -> None:
        for _ in range(50):
            await document_queue.run(
                "insert into penstock.tallies (collection_id, documents, chunks, words) values (1, 0, 0, 0)"
            )
            assert await tally(document_queue) == (500, 1000, 1500, 0)

    async def compact() -> None:
        for _ in range(20):
            await compact_tallies(document_queue.app.database, batch=60)

    await asyncio.gather(add(), compact(), compact())
    assert await tally(document_queue) == (500, 1000, 1500, 0)


async def test_a_deleted_document_is_not_published(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    job = await document_queue.claim_one()
    await delete_document(document_queue.app, made.id)
    assert not await document_queue.publish(job)
    assert await document_queue.status(made.id) == "deleted"
    assert await tally(document_queue) == (0, 0, 0, 1)


# -- what is left behind ------------------------------------------------------------------------------------------------


async def nothing_indexed(tx: Session, *, version: int) -> int:
    return 0


async def dead_versions(document_queue: DocumentQueue) -> list[int]:
    async with document_queue.app.database.pool.session() as session:
        return [each.version for each in await list_dead_versions(session)]


async def test_a_version_is_dead_when_a_newer_one_is_live(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready(content=b"one")
    old = (await document_queue.show(made.id)).version_id
    await document_queue.add(content=b"two", replace=True)
    assert await dead_versions(document_queue) == []
    await document_queue.publish(await document_queue.claim_one())
    assert await dead_versions(document_queue) == [old]


async def test_a_version_that_never_was_live_is_dead_when_it_is_replaced_and_its_job_is_over(
    document_queue: DocumentQueue,
) -> None:
    made = await document_queue.add(content=b"one")
    old = (await document_queue.show(made.id)).version_id
    stale = await document_queue.claim_one()
    await document_queue.add(content=b"two", replace=True)
    assert await dead_versions(document_queue) == []  # its job may still write
    await document_queue.job_queue.settle(await document_queue.worker(), (stale, Cancelled()))
    assert await dead_versions(document_queue) == [old]
    assert await document_queue.status(made.id) == "queued"


async def test_dead_versions_are_cleared_once(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready()
    version = (await document_queue.show(made.id)).version_id
    async with document_queue.app.transaction() as tx:
        await keep_pages(tx, version, [Page(number, "x") for number in range(1, 1500)])
    await document_queue.add(content=b"two", replace=True)
    await document_queue.publish(await document_queue.claim_one())
    assert await dead_versions(document_queue) == [version]
    left = [3]

    async def clear(tx: Session, *, version: int) -> int:
        left[0] -= 1
        return max(left[0], 0)

    assert await clear_old_versions(document_queue.app.database, clear) == 1
    assert left[0] <= 0
    assert await document_queue.rows("pages") == []
    assert await clear_old_versions(document_queue.app.database, clear) == 0


async def test_a_document_whose_job_ended_without_a_word_does_not_wait_for_ever(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    waiting = await document_queue.add("b.txt")
    job, _ = await document_queue.claim()
    await document_queue.job_queue.settle(await document_queue.worker(), (job, Done()))
    assert (await reconcile(document_queue.app.database)).failed == 1
    shown = await document_queue.show(made.id)
    assert (shown.status, dict(shown.error or {})["class"]) == ("failed", "Abandoned")
    assert await document_queue.status(waiting.id) == "processing"
    assert (await reconcile(document_queue.app.database)).failed == 0


# -- members ------------------------------------------------------------------------------------------------------------


async def store(document_queue: DocumentQueue, content: bytes) -> StoredBlob:
    return await document_queue.store.write(pieces(content), most=1000)


async def publish_with(document_queue: DocumentQueue, job: Job, **members: bytes) -> Attachments:
    """An archive is published together with what is inside."""
    import json

    from penstock.documents import publish

    args = json.loads(job.args)
    inside = [(name.replace("__", "/"), await store(document_queue, content)) for name, content in members.items()]
    async with document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind).finish() as tx:
        work = await load_work(tx, args["document"], args["version"])
        assert work is not None
        assert await publish(tx, work, media_type="application/zip", pages=0, chunks=0, words=0)
        return await add_members(tx, document_queue.app, work, inside)


async def test_members_become_documents_with_jobs(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.zip", b"zip", uploaded_by="ada", metadata={"n": 1})
    done = await publish_with(document_queue, await document_queue.claim_one(), one=b"1", folder__two=b"2", three=b"2")
    assert (done.added, done.replaced, done.deleted, len(done.unneeded)) == (3, 0, 0, 1)
    members = await list_documents(document_queue.app, parent=made.id)
    assert [each.name for each in members] == ["a.zip!/one", "a.zip!/folder/two", "a.zip!/three"]
    assert {(each.depth, each.uploaded_by, each.status) for each in members} == {(1, "ada", "queued")}
    assert members[0].metadata == {"n": 1}
    assert {job.id for job in await document_queue.claim()} == {each.job for each in members}
    assert await document_queue.events(members[0].id) == ["accepted"]
    assert len(await document_queue.rows("blobs")) == 3


async def test_publishing_the_same_members_again_changes_nothing(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.zip", b"zip")
    first = await publish_with(document_queue, await document_queue.claim_one(), one=b"1", two=b"2", three=b"3")
    jobs = {job.id: job for job in await document_queue.claim()}
    for job in jobs.values():
        await document_queue.publish(job)
    await document_queue.add("a.zip", b"other zip", replace=True)
    again = await publish_with(document_queue, await document_queue.claim_one(), one=b"1", two=b"changed", four=b"4")
    assert (again.added, again.replaced, again.deleted) == (1, 1, 1)
    members = {each.name: each for each in await list_documents(document_queue.app, parent=made.id)}
    assert {name: (each.status, each.version) for name, each in members.items()} == {
        "a.zip!/one": ("ready", 1),
        "a.zip!/two": ("queued", 2),
        "a.zip!/four": ("queued", 1),
    }
    assert set(again.documents) == {each.id for each in members.values()}
    assert len(set(first.documents) - set(again.documents)) == 1


async def test_members_with_one_name_and_names_that_are_taken(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.zip", b"zip")
    job = await document_queue.claim_one()
    await document_queue.add("a.zip!/one", b"an upload of this name")
    work_members: list[tuple[str, Any]] = [("one", b"1"), ("../one", b"2"), ("/one", b"3"), ("\0", b"4")]
    import json

    args = json.loads(job.args)
    inside = [(name, await store(document_queue, content)) for name, content in work_members]
    async with document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind).finish() as tx:
        work = await load_work(tx, args["document"], args["version"])
        assert work is not None
        await add_members(tx, document_queue.app, work, inside)
    assert [each.name for each in await list_documents(document_queue.app, parent=made.id)] == [
        "a.zip!/one (2)",
        "a.zip!/one (3)",
        "a.zip!/one (4)",
        "a.zip!/unnamed",
    ]


async def test_members_go_with_their_parent(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.zip", b"zip")
    await publish_with(document_queue, await document_queue.claim_one(), inner=b"1", two=b"2")
    inner, other = await document_queue.claim()
    await publish_with(document_queue, inner, deep=b"3")
    await document_queue.publish(other)
    assert await tally(document_queue) == (3, 2, 10, 0)
    await delete_document(document_queue.app, made.id, now=True)
    assert await list_documents(document_queue.app) == []
    assert await tally(document_queue) == (0, 0, 0, 4)
    waiting = "select kind from penstock.jobs join penstock.lanes on lanes.id = lane"
    assert [row["kind"] for row in await document_queue.run(waiting)] == ["remove_documents"]


async def test_an_interrupted_deletion_is_finished_later(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a.zip", b"zip")
    await publish_with(document_queue, await document_queue.claim_one(), one=b"1")
    await document_queue.run(
        "update penstock.documents set state = 'deleted', live_id = null, deleted_at = penstock.now() where id = $1",
        made.id,
    )
    assert (await reconcile(document_queue.app.database)).deleted == 1
    assert await list_documents(document_queue.app) == []
    assert (await reconcile(document_queue.app.database)).deleted == 0


async def test_an_archive_that_is_not_the_newest_brings_nothing(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.zip", b"zip")
    stale = await document_queue.claim_one()
    import json

    args = json.loads(stale.args)
    async with document_queue.app.database.pool.session() as session:
        work = await load_work(session, args["document"], args["version"])
    assert work is not None
    await document_queue.add("a.zip", b"new zip", replace=True)
    inside = await store(document_queue, b"1")
    async with document_queue.app.transaction() as tx:
        done = await add_members(tx, document_queue.app, work, [("one", inside)])
    assert (done.added, list(done.unneeded)) == (0, [inside.key])


@pytest.mark.parametrize("most", [1, 2])
async def test_an_archive_is_replaced_while_it_is_deleted(document_queue: DocumentQueue, most: int) -> None:
    """Locks in different orders end by themselves, and what is deleted stays deleted."""
    made = await document_queue.add("a.zip", b"zip")
    await publish_with(document_queue, await document_queue.claim_one(), one=b"1", two=b"2")
    await document_queue.add("a.zip", b"new zip", replace=True)
    jobs = {job.id: job for job in await document_queue.claim()}
    job = jobs[(await document_queue.show(made.id)).job or 0]
    await asyncio.gather(
        delete_document(document_queue.app, made.id),
        publish_with(document_queue, job, one=b"changed", two=b"changed"),
        return_exceptions=True,
    )
    assert await document_queue.status(made.id) == "deleted"
    await reconcile(document_queue.app.database)
    assert await list_documents(document_queue.app) == []
