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
from penstock.documents.removal import Withdrawn, next_group
from penstock.engine import failpoint
from penstock.engine.failpoint import Armed, Reached
from penstock.engine.outcome import Cancelled
from penstock.errors import LeaseLost
from penstock.search import Index, fold
from penstock.settings.model import SearchSettings
from tests.documents.conftest import Office
from tests.documents.filling import entry_of, fill, numbers
from tests.leftovers import count_leftovers

PLACES = [
    "count",
    "vectors",
    "postings",
    "folded",
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


async def remove(office: Office) -> int:
    return await remove_deleted(office.app.database, office.store, rest=0)


async def leftovers(office: Office, documents: list[int], versions: list[int], jobs: list[int]) -> dict[str, int]:
    async with office.app.database.pool.session() as session:
        return await count_leftovers(session, documents, versions, jobs)


async def test_nothing_is_left_but_a_receipt(office: Office) -> None:
    made = await fill(office, metadata={"client": "Acme"}, uploaded_by="Ada")
    kept = await fill(office, "b.txt", ["the mill", "another gate"])
    versions, jobs = await numbers(office, made.id)
    assert len(await leftovers(office, [made.id], versions, jobs)) > 5, "else the question proves nothing"
    await delete_document(office.app, made.id, by="Grace", reason="on request")
    assert await remove(office) == 1
    assert await leftovers(office, [made.id], versions, jobs) == {}
    receipt = await show_receipt(office.app, made.id)
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
    shown = await office.show(made.id)
    assert (shown.status, shown.version, shown.size, shown.digest.hex()) == ("deleted", 1, made.size, made.digest)
    assert await office.files() == [(await office.show(kept.id)).key]
    versions, jobs = await numbers(office, kept.id)
    assert (await leftovers(office, [kept.id], versions, jobs))["chunks.version_id"] == 2, "others stay"
    assert await remove(office) == 0


async def test_folded_postings_and_vectors_go_too(office: Office) -> None:
    made = [await fill(office, f"{n}.txt", [f"the mill {n}", f"a gate of oak {n}"]) for n in range(5)]
    collection = (await office.show(made[0].id)).collection_id
    assert await fold(office.app.database, collection, "static") > 0
    gone = [made[1].id, made[3].id]
    versions, jobs = await numbers(office, *gone)
    assert (await leftovers(office, gone, versions, jobs))["folded_postings"] > 0
    for document in gone:
        await delete_document(office.app, document)
    await remove(office)
    assert await leftovers(office, gone, versions, jobs) == {}
    versions, jobs = await numbers(office, made[0].id, made[2].id, made[4].id)
    assert (await leftovers(office, [], versions, jobs))["folded_postings"] > 0


async def test_an_index_of_which_nothing_is_seen_goes_first(office: Office) -> None:
    """The vacuum would have to take out each vector. While something is seen, or may be restored, it stays."""
    made = [await fill(office, f"{n}.txt", [f"the mill {n}", f"a gate of oak {n}"]) for n in range(3)]
    collection = (await office.show(made[0].id)).collection_id
    database = office.app.database
    every = database.settings.model_copy(update={"search": SearchSettings(exact_up_to=1)})
    await fold(replace(database, settings=every), collection, "static")

    async def indexes() -> int:
        name = f"folded_vectors_static_{collection}"
        return len(await office.run("select from pg_indexes where indexname = $1", name))

    await delete_document(office.app, made[0].id)
    await remove(office)
    assert await indexes() == 1, "two are seen"
    await delete_document(office.app, made[1].id)
    await office.run("update penstock.removals set due_at = due_at + interval '1 hour'")
    await delete_document(office.app, made[2].id)
    await remove(office)
    assert await indexes() == 1, "one may be restored"
    await office.run("update penstock.removals set due_at = deleted_at")
    await remove(office)
    assert await indexes() == 0
    assert await office.run("select from penstock.folded_vectors_static") == []


async def test_bytes_that_another_document_has_stay(office: Office) -> None:
    one, two = await fill(office, "a.txt", content=b"same"), await fill(office, "b.txt", content=b"same")
    await delete_document(office.app, one.id)
    await remove(office)
    receipt = await show_receipt(office.app, one.id)
    assert (receipt.removed["blobs"], receipt.removed["shared"]) == (0, 1)
    assert await office.files() == [(await office.show(two.id)).key]
    await delete_document(office.app, two.id)
    await remove(office)
    assert await office.files() == []
    assert await office.rows("blobs") == []


async def test_an_upload_of_the_same_content_meanwhile_keeps_its_bytes(office: Office) -> None:
    for round_ in range(10):
        made = await office.add(f"{round_}.txt", b"same")
        await delete_document(office.app, made.id)
        _, again = await asyncio.gather(remove(office), office.add(f"again-{round_}.txt", b"same"))
        key = (await office.show(again.id)).key
        assert key in await office.files()
        assert await office.run("select from penstock.blobs where key = $1 and state = 'kept'", key)
        await delete_document(office.app, again.id)
        await remove(office)
    assert await office.files() == []


async def test_removal_waits_for_the_job_and_a_late_worker_writes_nothing(office: Office) -> None:
    made = await office.add()
    job = await office.claim_one()
    context = office.shop.context(job, await office.worker(), office.kind)
    shown = await office.show(made.id)
    async with context.write() as tx:
        await Index().stage(tx, await entry_of(office, shown.version_id, shown.collection_id, ["early"]))
    await delete_document(office.app, made.id)
    assert await remove(office) == 0, "its job may still write"
    late = await entry_of(office, shown.version_id, shown.collection_id, ["late"], first=1)
    async with context.write() as tx:
        await Index().stage(tx, late)
    await office.shop.settle(await office.worker(), (job, Cancelled()))
    assert await remove(office) == 1
    assert (await show_receipt(office.app, made.id)).removed["chunks"] == 2
    with pytest.raises(LeaseLost):
        async with context.write() as tx:
            await Index().stage(tx, late)
    assert await leftovers(office, [made.id], [shown.version_id], [job.id]) == {}


async def test_what_jobs_have_kept_goes_too(office: Office) -> None:
    made = await fill(office)
    [version], [job] = await numbers(office, made.id)
    await office.run(
        "insert into penstock.checkpoints (scope, step, version, digest, job_id, own, format, content, seconds) "
        "values ('job', 'ocr', 1, '', $1, true, 'json', '', 1)",
        job,
    )
    await office.run(
        "insert into penstock.job_history (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, args, "
        "result, attempts, fanout, turn) values (999999, 1, 'done', 0, 1, 0, now(), now(), $1, $2, '{}', 7, 0)",
        json.dumps({"document": made.id, "version": version, "pages": [1]}),
        json.dumps({"pages": ["a secret"]}),
    )
    await delete_document(office.app, made.id)
    await remove(office)
    assert await leftovers(office, [made.id], [version], [job]) == {}
    assert (await show_receipt(office.app, made.id)).removed["checkpoints"] == 1
    assert await office.run("select from penstock.job_history where result::text like '%secret%'") == []


async def test_what_an_earlier_job_said_goes_too(office: Office) -> None:
    """Cancelled and tried again, a document has another job; what the first one said may quote it as well."""
    made = await office.add()
    await cancel_document(office.app, made.id)
    await office.run(
        "update penstock.job_history set error = $1 where id = $2", json.dumps({"message": "secret"}), made.job
    )
    await retry_document(office.app, made.id)
    await delete_document(office.app, made.id)
    await remove(office)
    [said] = await office.run("select error::text as error from penstock.job_history where id = $1", made.job)
    assert "removed with its document" in said["error"]


@pytest.mark.parametrize("place", PLACES)
async def test_whoever_goes_on_after_a_failure_leaves_nothing(
    office: Office, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await fill(office, texts=["one", "two", "three"])
    collection = (await office.show(made.id)).collection_id
    await fold(office.app.database, collection, "static")
    versions, jobs = await numbers(office, made.id)
    await delete_document(office.app, made.id)
    monkeypatch.setattr(failpoint, "_armed", {f"step:remove-{place}": Armed("raise", 1)})
    with pytest.raises(Reached):
        await remove(office)
    await remove(office)
    assert await leftovers(office, [made.id], versions, jobs) == {}
    assert await office.files() == []
    [receipt] = await office.rows("receipts")
    assert receipt["verified_at"] is not None
    assert json.loads(receipt["removed"])["chunks"] == 3, "counted before anything went"


async def test_what_is_found_at_the_second_look_is_removed_and_told(office: Office) -> None:
    """As if a defect had let a row in: the receipt says so."""
    made = await fill(office)
    shown = await office.show(made.id)
    await delete_document(office.app, made.id)
    failpoint._armed["step:remove-files"] = Armed("raise", 1)
    try:
        with pytest.raises(Reached):
            await remove(office)
    finally:
        failpoint._armed.clear()
    entry = await entry_of(office, shown.version_id, shown.collection_id, ["a revenant"])
    async with office.app.transaction() as tx:
        await Index().stage(tx, entry)
    await remove(office)
    receipt = await show_receipt(office.app, made.id)
    assert receipt.removed["again"]["chunks"] == 1
    assert receipt.verified_at is not None
    assert await leftovers(office, [made.id], [shown.version_id], []) == {}


async def test_two_who_remove_at_once_do_it_once(office: Office) -> None:
    made = [await fill(office, f"{n}.txt") for n in range(6)]
    for each in made:
        await delete_document(office.app, each.id)
    await asyncio.gather(*(remove(office) for _ in range(3)))
    assert [row["document_id"] for row in await office.rows("receipts")] == [each.id for each in made]
    assert {json.loads(row["removed"])["chunks"] for row in await office.rows("receipts")} == {2}
    assert await office.files() == []


async def test_a_whole_collection_ends_in_receipts(office: Office) -> None:
    made = [await fill(office, f"{n}.txt") for n in range(3)]
    assert await delete_collection(office.app, "files") == 3
    assert await remove(office) == 3
    for each in made:
        assert (await show_receipt(office.app, each.id)).reason == "its collection was deleted"
        assert (await show_document(office.app, each.id)).status == "deleted"
    assert await office.rows("chunks") == []


async def test_what_is_large_is_removed_in_many_groups(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.documents.removal.CHUNKS", 4)
    monkeypatch.setattr("penstock.search.withdrawal.BITE", 2)
    monkeypatch.setattr("penstock.search.withdrawal.BYTES", 1)
    monkeypatch.setattr("penstock.search.withdrawal.SLICE", 2)
    made = [await fill(office, f"{n}.txt", [f"word{n} mill", "gate", "oak"]) for n in range(4)]
    collection = (await office.show(made[0].id)).collection_id
    await fold(office.app.database, collection, "static")
    ids = [each.id for each in made]
    versions, jobs = await numbers(office, *ids)
    for document in ids:
        await delete_document(office.app, document)
    async with office.app.database.pool.session() as session:
        group = await next_group(session)
    assert group is not None
    assert len(group.documents) == 1
    assert await remove(office) == 4
    assert await leftovers(office, ids, versions, jobs) == {}


async def test_a_document_that_is_not_due_is_left_alone(office: Office) -> None:
    made = await fill(office)
    await delete_document(office.app, made.id)
    await office.run("update penstock.removals set due_at = penstock.now() + interval '1 hour'")
    assert await remove(office) == 0
    assert len(await office.rows("chunks")) == 2
    await office.shop.advance(timedelta(hours=2).total_seconds())
    assert await remove(office) == 1


async def test_what_is_restored_meanwhile_is_not_removed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of removals is the fence of each bite."""
    made = await fill(office)
    await delete_document(office.app, made.id)
    async with office.app.database.pool.session() as session:
        group = await next_group(session)
    await office.run("delete from penstock.removals")
    from penstock.documents import removal

    assert group is not None
    with pytest.raises(Withdrawn):
        await removal._remove(office.app.database, group, 0)
    assert len(await office.rows("chunks")) == 2
