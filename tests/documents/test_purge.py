"""What deleted documents leave behind is removed, all of it, once; what others use stays."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from penstock.documents import (
    cancel_document,
    delete_collection,
    delete_document,
    remove_deleted,
    retry_document,
    show_document,
    show_receipt,
)
from penstock.documents.deletion.purge import Withdrawn, next_group
from penstock.engine import failpoint
from penstock.engine.failpoint import Failpoint, FailpointReached
from penstock.engine.job import Cancelled
from penstock.errors import LeaseLost
from penstock.search import Index, compact
from penstock.settings.settings import SearchSettings
from tests.documents.conftest import DocumentQueue
from tests.documents.index_rows import entry_of, fill, numbers
from tests.remaining_rows import count_remaining_rows

PLACES = [
    "count",
    "vectors",
    "postings",
    "compacted",
    "chunks",
    "facts",
    "answers",
    "pages",
    "last",
    "commit",
    "files",
    "rows",
    "verify",
]


async def remove(document_queue: DocumentQueue) -> int:
    return await remove_deleted(document_queue.app.database, document_queue.store, rest=0)


async def leftovers(
    document_queue: DocumentQueue, documents: list[int], versions: list[int], jobs: list[int]
) -> dict[str, int]:
    async with document_queue.app.database.pool.session() as session:
        return await count_remaining_rows(session, documents, versions, jobs)


async def test_nothing_is_left_but_a_receipt(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue, metadata={"client": "Acme"}, uploaded_by="Ada")
    kept = await fill(document_queue, "b.txt", ["the mill", "another gate"])
    versions, jobs = await numbers(document_queue, made.id)
    assert len(await leftovers(document_queue, [made.id], versions, jobs)) > 5, "else the question proves nothing"
    await delete_document(document_queue.app, made.id, by="Grace", reason="on request", now=True)
    assert await remove(document_queue) == 1
    assert await leftovers(document_queue, [made.id], versions, jobs) == {}
    receipt = await show_receipt(document_queue.app, made.id)
    assert receipt.removed == {
        "chunks": 2,
        "vectors": 2,
        "postings": 1,
        "pages": 1,
        "checkpoints": 0,
        "facts": 0,
        "versions": 1,
        "blobs": 1,
        "bytes": made.size,
        "shared": 0,
    }
    assert (receipt.name, receipt.collection, receipt.deleted_by, receipt.reason) == (
        "a.txt",
        "files",
        "Grace",
        "on request",
    )
    assert [dict(each) for each in receipt.contents] == [{"version": 1, "digest": made.digest, "size": made.size}]
    assert receipt.verified_at is not None
    assert receipt.verified is not None
    assert set(receipt.verified["counted"].values()) == {0}
    shown = await document_queue.show(made.id)
    assert (shown.status, shown.version, shown.size, shown.digest.hex()) == ("deleted", 1, made.size, made.digest)
    assert await document_queue.files() == [(await document_queue.show(kept.id)).key]
    versions, jobs = await numbers(document_queue, kept.id)
    assert (await leftovers(document_queue, [kept.id], versions, jobs))["chunks.version_id"] == 2, "others stay"
    assert await remove(document_queue) == 0


async def test_folded_postings_and_vectors_go_too(document_queue: DocumentQueue) -> None:
    made = [await fill(document_queue, f"{n}.txt", [f"the mill {n}", f"a gate of oak {n}"]) for n in range(5)]
    collection = (await document_queue.show(made[0].id)).collection_id
    assert await compact(document_queue.app.database, collection, "static") > 0
    gone = [made[1].id, made[3].id]
    versions, jobs = await numbers(document_queue, *gone)
    assert (await leftovers(document_queue, gone, versions, jobs))["folded_postings"] > 0
    for document in gone:
        await delete_document(document_queue.app, document, now=True)
    await remove(document_queue)
    assert await leftovers(document_queue, gone, versions, jobs) == {}
    versions, jobs = await numbers(document_queue, made[0].id, made[2].id, made[4].id)
    assert (await leftovers(document_queue, [], versions, jobs))["folded_postings"] > 0


async def test_an_index_of_which_nothing_is_seen_goes_first(document_queue: DocumentQueue) -> None:
    """The vacuum would have to take out each vector. While something is seen, or may be restored, it stays."""
    made = [await fill(document_queue, f"{n}.txt", [f"the mill {n}", f"a gate of oak {n}"]) for n in range(3)]
    collection = (await document_queue.show(made[0].id)).collection_id
    database = document_queue.app.database
    every = database.settings.model_copy(update={"search": SearchSettings(exact_up_to=1)})
    await compact(replace(database, settings=every), collection, "static")

    async def indexes() -> int:
        name = f"folded_vectors_static_{collection}"
        return len(await document_queue.run("select from pg_indexes where indexname = $1", name))

    await delete_document(document_queue.app, made[0].id, now=True)
    await remove(document_queue)
    assert await indexes() == 1, "two are seen"
    await delete_document(document_queue.app, made[1].id, now=True)
    await document_queue.run("update penstock.removals set due_at = due_at + interval '1 hour'")
    await delete_document(document_queue.app, made[2].id, now=True)
    await remove(document_queue)
    assert await indexes() == 1, "one may be restored"
    await document_queue.run("update penstock.removals set due_at = deleted_at")
    await remove(document_queue)
    assert await indexes() == 0
    assert await document_queue.run("select from penstock.folded_vectors_static") == []


async def test_bytes_that_another_document_has_stay(document_queue: DocumentQueue) -> None:
    one, two = (
        await fill(document_queue, "a.txt", content=b"same"),
        await fill(document_queue, "b.txt", content=b"same"),
    )
    await delete_document(document_queue.app, one.id, now=True)
    await remove(document_queue)
    receipt = await show_receipt(document_queue.app, one.id)
    assert (receipt.removed["blobs"], receipt.removed["shared"]) == (0, 1)
    assert await document_queue.files() == [(await document_queue.show(two.id)).key]
    await delete_document(document_queue.app, two.id, now=True)
    await remove(document_queue)
    assert await document_queue.files() == []
    assert await document_queue.rows("blobs") == []


async def test_an_upload_of_the_same_content_meanwhile_keeps_its_bytes(document_queue: DocumentQueue) -> None:
    for round_ in range(10):
        made = await document_queue.add(f"{round_}.txt", b"same")
        await delete_document(document_queue.app, made.id, now=True)
        _, again = await asyncio.gather(remove(document_queue), document_queue.add(f"again-{round_}.txt", b"same"))
        key = (await document_queue.show(again.id)).key
        assert key in await document_queue.files()
        assert await document_queue.run("select from penstock.blobs where key = $1 and state = 'kept'", key)
        await delete_document(document_queue.app, again.id, now=True)
        await remove(document_queue)
    assert await document_queue.files() == []


async def test_removal_waits_for_the_job_and_a_late_worker_writes_nothing(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    job = await document_queue.claim_one()
    context = document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind)
    shown = await document_queue.show(made.id)
    async with context.write() as tx:
        await Index().stage(tx, await entry_of(document_queue, shown.version_id, shown.collection_id, ["early"]))
    await delete_document(document_queue.app, made.id, now=True)
    assert await remove(document_queue) == 0, "its job may still write"
    late = await entry_of(document_queue, shown.version_id, shown.collection_id, ["late"], first=1)
    async with context.write() as tx:
        await Index().stage(tx, late)
    await document_queue.job_queue.settle(await document_queue.worker(), (job, Cancelled()))
    assert await remove(document_queue) == 1
    assert (await show_receipt(document_queue.app, made.id)).removed["chunks"] == 2
    with pytest.raises(LeaseLost):
        async with context.write() as tx:
            await Index().stage(tx, late)
    assert await leftovers(document_queue, [made.id], [shown.version_id], [job.id]) == {}


async def test_what_jobs_have_kept_goes_too(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    [version], [job] = await numbers(document_queue, made.id)
    await document_queue.run(
        "insert into penstock.checkpoints (scope, step, version, digest, job_id, own, format, content, seconds) "
        "values ('job', 'ocr', 1, '', $1, true, 'json', '', 1)",
        job,
    )
    await document_queue.run(
        "insert into penstock.job_history (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, args, "
        "result, attempts, fanout, turn) values (999999, 1, 'done', 0, 1, 0, now(), now(), $1, $2, '{}', 7, 0)",
        json.dumps({"document": made.id, "version": version, "pages": [1]}),
        json.dumps({"pages": ["a secret"]}),
    )
    await delete_document(document_queue.app, made.id, now=True)
    await remove(document_queue)
    assert await leftovers(document_queue, [made.id], [version], [job]) == {}
    assert (await show_receipt(document_queue.app, made.id)).removed["checkpoints"] == 1
    assert await document_queue.run("select from penstock.job_history where result::text like '%secret%'") == []


async def test_what_an_earlier_job_said_goes_too(document_queue: DocumentQueue) -> None:
    """Cancelled and tried again, a document has another job; what the first one said may quote it as well."""
    made = await document_queue.add()
    await cancel_document(document_queue.app, made.id)
    await document_queue.run(
        "update penstock.job_history set error = $1 where id = $2", json.dumps({"message": "secret"}), made.job
    )
    await retry_document(document_queue.app, made.id)
    await delete_document(document_queue.app, made.id, now=True)
    await remove(document_queue)
    [said] = await document_queue.run("select error::text as error from penstock.job_history where id = $1", made.job)
    assert "removed with its document" in said["error"]


@pytest.mark.parametrize("place", PLACES)
async def test_whoever_goes_on_after_a_failure_leaves_nothing(
    document_queue: DocumentQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await fill(document_queue, texts=["one", "two", "three"])
    collection = (await document_queue.show(made.id)).collection_id
    await compact(document_queue.app.database, collection, "static")
    versions, jobs = await numbers(document_queue, made.id)
    await delete_document(document_queue.app, made.id, now=True)
    monkeypatch.setattr(failpoint, "_armed", {f"step:remove-{place}": Failpoint("raise", 1)})
    with pytest.raises(FailpointReached):
        await remove(document_queue)
    await remove(document_queue)
    assert await leftovers(document_queue, [made.id], versions, jobs) == {}
    assert await document_queue.files() == []
    [receipt] = await document_queue.rows("receipts")
    assert receipt["verified_at"] is not None
    assert json.loads(receipt["removed"])["chunks"] == 3, "counted before anything went"


async def test_what_is_found_at_the_second_look_is_removed_and_told(document_queue: DocumentQueue) -> None:
    """As if a defect had let a row in: the receipt says so."""
    made = await fill(document_queue)
    shown = await document_queue.show(made.id)
    await delete_document(document_queue.app, made.id, now=True)
    failpoint._armed["step:remove-files"] = Failpoint("raise", 1)
    try:
        with pytest.raises(FailpointReached):
            await remove(document_queue)
    finally:
        failpoint._armed.clear()
    entry = await entry_of(document_queue, shown.version_id, shown.collection_id, ["a revenant"])
    async with document_queue.app.transaction() as tx:
        await Index().stage(tx, entry)
    await remove(document_queue)
    receipt = await show_receipt(document_queue.app, made.id)
    assert receipt.removed["again"]["chunks"] == 1
    assert receipt.verified_at is not None
    assert await leftovers(document_queue, [made.id], [shown.version_id], []) == {}


async def test_two_who_remove_at_once_do_it_once(document_queue: DocumentQueue) -> None:
    made = [await fill(document_queue, f"{n}.txt") for n in range(6)]
    for each in made:
        await delete_document(document_queue.app, each.id, now=True)
    await asyncio.gather(*(remove(document_queue) for _ in range(3)))
    assert [row["document_id"] for row in await document_queue.rows("receipts")] == [each.id for each in made]
    assert {json.loads(row["removed"])["chunks"] for row in await document_queue.rows("receipts")} == {2}
    assert await document_queue.files() == []


async def test_a_whole_collection_ends_in_receipts(document_queue: DocumentQueue) -> None:
    made = [await fill(document_queue, f"{n}.txt") for n in range(3)]
    assert (await delete_collection(document_queue.app, "files", now=True)).deleted == 3
    assert await remove(document_queue) == 3
    for each in made:
        assert (await show_receipt(document_queue.app, each.id)).reason == "its collection was deleted"
        assert (await show_document(document_queue.app, each.id)).status == "deleted"
    assert await document_queue.rows("chunks") == []


async def test_what_is_large_is_removed_in_many_groups(
    document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.documents.deletion.purge.CHUNKS", 4)
    monkeypatch.setattr("penstock.search.removal.BATCH", 2)
    monkeypatch.setattr("penstock.search.removal.BYTES", 1)
    monkeypatch.setattr("penstock.search.removal.SLICE", 2)
    made = [await fill(document_queue, f"{n}.txt", [f"word{n} mill", "gate", "oak"]) for n in range(4)]
    collection = (await document_queue.show(made[0].id)).collection_id
    await compact(document_queue.app.database, collection, "static")
    ids = [each.id for each in made]
    versions, jobs = await numbers(document_queue, *ids)
    for document in ids:
        await delete_document(document_queue.app, document, now=True)
    async with document_queue.app.database.pool.session() as session:
        group = await next_group(session)
    assert group is not None
    assert len(group.documents) == 1
    assert await remove(document_queue) == 4
    assert await leftovers(document_queue, ids, versions, jobs) == {}


async def test_a_document_that_is_not_due_is_left_alone(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    await delete_document(document_queue.app, made.id, now=True)
    await document_queue.run("update penstock.removals set due_at = penstock.now() + interval '1 hour'")
    assert await remove(document_queue) == 0
    assert len(await document_queue.rows("chunks")) == 2
    await document_queue.job_queue.advance(timedelta(hours=2).total_seconds())
    assert await remove(document_queue) == 1


async def test_what_is_restored_meanwhile_is_not_removed(
    document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of removals is the fence of each batch."""
    made = await fill(document_queue)
    await delete_document(document_queue.app, made.id, now=True)
    async with document_queue.app.database.pool.session() as session:
        group = await next_group(session)
    await document_queue.run("delete from penstock.removals")
    from penstock.documents.deletion import purge

    assert group is not None
    with pytest.raises(Withdrawn):
        await purge._remove(document_queue.app.database, group, 0)
    assert len(await document_queue.rows("chunks")) == 2
