"""What was deleted comes back while it can, with all that was deleted with it, and the counts follow."""

import json
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import (
    add_members,
    change_collection,
    compact_tallies,
    create_collection,
    delete_collection,
    delete_document,
    find_collection,
    list_documents,
    load_work,
    publish,
    remove_deleted,
    restore_collection,
    restore_document,
    show_receipt,
)
from penstock.documents.deletion.delete import delete_in
from penstock.engine import Penstock
from penstock.engine.job import Cancelled
from penstock.errors import NameTaken, NotFound, WrongState
from penstock.search import CollectionRef, compact
from penstock.settings import DatabaseUrl
from tests.documents.conftest import DocumentQueue, pieces, prepare_document
from tests.documents.index_rows import fill, numbers, prepare
from tests.remaining_rows import count_remaining_rows
from tests.search.rebuild import read_index, rebuild


@pytest.fixture
async def app(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Penstock]:
    app = Penstock(
        database_url=database_url, home=tmp_path, pool={"size": 4, "warm": 1}, documents={"restore_within": "1h"}
    )
    app.job(queue="documents", max_queue_size=app.settings.limits.waiting)(prepare_document)
    async with app:
        yield app


async def remove(document_queue: DocumentQueue) -> int:
    return await remove_deleted(document_queue.app.database, document_queue.store, rest=0)


async def tally(document_queue: DocumentQueue) -> tuple[int, ...]:
    [row] = await document_queue.run(
        "select coalesce(sum(documents), 0)::int, coalesce(sum(chunks), 0)::int, coalesce(sum(words), 0)::int, "
        "coalesce(sum(deleted), 0)::int from penstock.tallies"
    )
    return tuple(row)


async def test_what_was_live_is_live_again(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue, metadata={"client": "Acme"})
    before, counted = await document_queue.show(made.id), await tally(document_queue)
    await delete_document(document_queue.app, made.id)
    assert await tally(document_queue) == (0, 0, 0, 1)
    assert await remove(document_queue) == 0, "there is time"
    back = await restore_document(document_queue.app, made.id)
    assert (back.status, back.live_id, back.metadata) == ("ready", before.live_id, {"client": "Acme"})
    assert await tally(document_queue) == counted
    assert await document_queue.rows("hidden_versions") == []
    assert await document_queue.rows("removals") == []
    assert (await document_queue.events(made.id))[-2:] == ["deleted", "restored"]
    await document_queue.job_queue.advance(7200)
    assert await remove(document_queue) == 0
    assert len(await document_queue.rows("chunks")) == 2


async def test_what_was_not_ready_is_prepared_by_a_new_job(document_queue: DocumentQueue) -> None:
    queued = await document_queue.add("queued.txt", b"one")
    failed = await document_queue.add("failed.txt", b"two")
    jobs = {json.loads(job.args)["document"]: job for job in await document_queue.claim()}
    await document_queue.bury(jobs[failed.id])
    await document_queue.job_queue.settle(await document_queue.worker(), (jobs[queued.id], Cancelled()))
    for each in (queued, failed):
        await delete_document(document_queue.app, each.id)
        back = await restore_document(document_queue.app, each.id)
        assert (back.status, back.job != each.job) == ("queued", True)
        assert await prepare(document_queue, await document_queue.claim_one(), ["text"])
        assert await document_queue.status(each.id) == "ready"
    assert (await tally(document_queue))[0] == 2


async def test_an_old_version_is_live_again_while_the_new_one_is_prepared(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    live = (await document_queue.show(made.id)).live_id
    await document_queue.add("a.txt", b"other", replace=True)
    await delete_document(document_queue.app, made.id)
    back = await restore_document(document_queue.app, made.id)
    assert (back.status, back.live_id, back.version) == ("queued", live, 2)
    assert await prepare(document_queue, await document_queue.claim_one(), ["new"])
    assert (await document_queue.show(made.id)).live_version == 2


async def with_members(document_queue: DocumentQueue, name: str, *inside: str) -> int:
    made = await document_queue.add(name, name.encode())
    job = await document_queue.claim_one()
    args = json.loads(job.args)
    stored = [(each, await document_queue.store.write(pieces(f"{name} {each}".encode()), most=1000)) for each in inside]
    context = document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind)
    async with context.finish() as tx:
        work = await load_work(tx, args["document"], args["version"])
        assert work is not None
        await publish(tx, work, media_type="application/zip", pages=0, chunks=0, words=0)
        await add_members(tx, document_queue.app, work, stored)
    for member in await document_queue.claim():
        await prepare(document_queue, member, ["inside"])
    return made.id


async def test_members_come_back_with_their_parent_but_not_those_that_were_deleted_before(
    document_queue: DocumentQueue,
) -> None:
    parent = await with_members(document_queue, "a.zip", "one", "two", "three")
    by_name = {each.name: each.id for each in await list_documents(document_queue.app)}
    await delete_document(document_queue.app, by_name["a.zip!/two"])
    await delete_document(document_queue.app, parent)
    assert await list_documents(document_queue.app) == []
    with pytest.raises(WrongState, match=f"belongs to document {parent}, which is deleted: restore that one"):
        await restore_document(document_queue.app, by_name["a.zip!/one"])
    await restore_document(document_queue.app, parent)
    assert {each.name for each in await list_documents(document_queue.app)} == {"a.zip", "a.zip!/one", "a.zip!/three"}
    await restore_document(document_queue.app, by_name["a.zip!/two"])
    assert (await tally(document_queue))[0] == 4


async def test_a_name_that_is_taken_meanwhile_is_not_taken_away(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    await delete_document(document_queue.app, made.id)
    other = await fill(document_queue, content=b"other")
    with pytest.raises(NameTaken) as refused:
        await restore_document(document_queue.app, made.id)
    assert refused.value.existing == other.id
    await delete_document(document_queue.app, other.id)
    assert (await restore_document(document_queue.app, made.id)).status == "ready"


async def test_what_is_gone_cannot_come_back_and_says_why(document_queue: DocumentQueue) -> None:
    made, late, lost = [await fill(document_queue, f"{n}.txt") for n in range(3)]
    with pytest.raises(WrongState, match="is ready: there is nothing to restore"):
        await restore_document(document_queue.app, made.id)
    with pytest.raises(NotFound):
        await restore_document(document_queue.app, 12345)
    await delete_document(document_queue.app, made.id)
    await delete_document(document_queue.app, late.id)
    await document_queue.job_queue.advance(3601)
    with pytest.raises(WrongState, match="cannot be restored any more"):
        await restore_document(document_queue.app, late.id)
    assert await remove(document_queue) == 2
    with pytest.raises(WrongState, match=r"was removed at .* UTC: upload it again"):
        await restore_document(document_queue.app, made.id)
    assert (await show_receipt(document_queue.app, made.id)).verified_at is not None
    await delete_collection(document_queue.app, "files")
    with pytest.raises(WrongState, match="which is deleted: restore the collection"):
        await restore_document(document_queue.app, lost.id)


async def test_by_default_a_deleted_document_can_be_restored_for_seven_days(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with Penstock(database_url=database_url, home=tmp_path) as app:
        assert app.settings.documents.restore_within == timedelta(days=7)
    async with Penstock(database_url=database_url, home=tmp_path, documents={"restore_within": ""}) as app:
        assert app.settings.documents.restore_within is None


async def test_what_is_deleted_now_cannot_be_restored_and_is_removed_at_once(document_queue: DocumentQueue) -> None:
    parent = await with_members(document_queue, "a.zip", "one", "two")
    deleted = await delete_document(document_queue.app, parent)
    assert deleted.restorable_until is not None
    assert deleted.deleted_at is not None
    assert deleted.restorable_until - deleted.deleted_at == timedelta(hours=1)
    with pytest.raises(NotFound, match=r"can be restored until .* UTC: its receipt comes with the removal"):
        await show_receipt(document_queue.app, parent)
    assert await remove(document_queue) == 0
    again = await delete_document(document_queue.app, parent, now=True)
    assert again.restorable_until is None
    with pytest.raises(WrongState, match="cannot be restored any more, because it is being removed: upload it again"):
        await restore_document(document_queue.app, parent)
    assert await remove(document_queue) == 3, "its members, too"
    assert (await show_receipt(document_queue.app, parent)).verified_at is not None
    other = await fill(document_queue, "b.txt")
    assert (await delete_document(document_queue.app, other.id, now=True)).restorable_until is None
    assert await remove(document_queue) == 1


async def test_a_receipt_after_the_restore_window_has_both_times(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    deleted = await delete_document(document_queue.app, made.id, by="Ada")
    await document_queue.job_queue.advance(3601)
    assert (await document_queue.show(made.id)).restorable_until is None
    assert await remove(document_queue) == 1
    receipt = await show_receipt(document_queue.app, made.id)
    assert (receipt.deleted_at, receipt.deleted_by) == (deleted.deleted_at, "Ada")
    assert receipt.removed_at - receipt.deleted_at >= timedelta(hours=1)
    assert receipt.verified_at is not None


async def test_members_that_a_dead_process_has_left_are_due_with_their_parent(document_queue: DocumentQueue) -> None:
    """The process that deletes with `now` dies after the parent; maintenance deletes the members later."""
    parent = await with_members(document_queue, "a.zip", "one")
    async with document_queue.app.database.pool.transaction() as tx:
        await delete_in(tx, [parent], "and then the process dies")
    assert await remove(document_queue) == 1
    [member] = await list_documents(document_queue.app)
    assert (await delete_document(document_queue.app, member.id)).restorable_until is None
    assert await remove(document_queue) == 1


async def test_a_collection_comes_back_with_what_was_deleted_with_it(document_queue: DocumentQueue) -> None:
    parent = await with_members(document_queue, "a.zip", "one", "two")
    before = await fill(document_queue, "before.txt")
    ready = await fill(document_queue, "ready.txt")
    queued = await document_queue.add("queued.txt", b"waits")
    counted = (await find_collection(document_queue.app, "files")).documents
    await delete_document(document_queue.app, before.id)
    gone = await delete_collection(document_queue.app, "files", by="Ada")
    assert gone.deleted == 5
    assert gone.restorable_until is not None
    assert (await document_queue.show(ready.id)).restorable_until == gone.restorable_until
    with pytest.raises(NotFound):
        await find_collection(document_queue.app, "files")
    other = await create_collection(document_queue.app, "files")
    with pytest.raises(NameTaken, match="another collection files now: rename that one") as refused:
        await restore_collection(document_queue.app, "files")
    assert refused.value.existing == other.id
    await change_collection(document_queue.app, "files", new_name="other")
    back = await restore_collection(document_queue.app, "files")
    assert back.documents == counted - 1
    names = {each.name: each.status for each in await list_documents(document_queue.app)}
    expected = dict.fromkeys(("a.zip", "a.zip!/one", "a.zip!/two", "ready.txt"), "ready") | {"queued.txt": "queued"}
    assert names == expected
    assert (await document_queue.show(parent)).restorable_until is None
    assert await prepare(document_queue, await document_queue.claim_one(), ["text"])
    assert await document_queue.status(queued.id) == "ready"
    assert (await restore_document(document_queue.app, before.id)).status == "ready"
    with pytest.raises(WrongState, match="Collection files is not deleted: there is nothing to restore"):
        await restore_collection(document_queue.app, "files")


async def test_a_collection_that_is_deleted_now_does_not_come_back(document_queue: DocumentQueue) -> None:
    before, rest = [await fill(document_queue, f"{n}.txt") for n in range(2)]
    await delete_document(document_queue.app, before.id)
    gone = await delete_collection(document_queue.app, "files", now=True)
    assert (gone.deleted, gone.restorable_until) == (1, None)
    with pytest.raises(WrongState, match="Collection files cannot be restored any more"):
        await restore_collection(document_queue.app, "files")
    assert await remove(document_queue) == 2
    assert (await show_receipt(document_queue.app, rest.id)).verified_at is not None
    with pytest.raises(NotFound):
        await restore_collection(document_queue.app, "never")


async def test_the_restore_window_of_a_collection_ends_by_time_or_by_now(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    await delete_collection(document_queue.app, "files")
    assert await remove(document_queue) == 0
    assert (await delete_collection(document_queue.app, "files", now=True)).deleted == 0
    assert await remove(document_queue) == 1
    assert (await show_receipt(document_queue.app, made.id)).verified_at is not None
    with pytest.raises(NotFound):
        await delete_collection(document_queue.app, "files", now=True)
    await create_collection(document_queue.app, "files")
    await fill(document_queue)
    await delete_collection(document_queue.app, "files")
    await document_queue.job_queue.advance(3601)
    with pytest.raises(WrongState, match="cannot be restored any more"):
        await restore_collection(document_queue.app, "files")
    assert await remove(document_queue) == 1


async def test_an_interrupted_restore_of_a_collection_is_repeated(document_queue: DocumentQueue) -> None:
    """The process dies after the collection is back and before its documents are."""
    await fill(document_queue, "0.txt")
    await delete_collection(document_queue.app, "files")
    await document_queue.run("update penstock.collections set deleted_at = null, restorable_until = null")
    assert (await restore_collection(document_queue.app, "files")).documents == 1


async def test_it_waits_for_the_end_of_the_old_job(
    document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.documents.deletion.delete.PATIENCE", 0.3)
    made = await document_queue.add()
    job = await document_queue.claim_one()
    await delete_document(document_queue.app, made.id)
    with pytest.raises(WrongState, match="try again in a moment"):
        await restore_document(document_queue.app, made.id)
    assert await document_queue.status(made.id) == "deleted"
    await document_queue.job_queue.settle(await document_queue.worker(), (job, Cancelled()))
    assert (await restore_document(document_queue.app, made.id)).status == "queued"


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_done_the_counts_and_the_index_are_right(document_queue: DocumentQueue, seed: int) -> None:
    """Random adds, replacements, deletions, restores, folds and removals on a few names."""
    chance = random.Random(seed)
    known: dict[int, tuple[list[int], list[int]]] = {}
    collection = 0
    for step in range(60):
        documents = {each.id: each for each in await list_documents(document_queue.app)}
        deleted = [number for number in known if number not in documents]
        match chance.choice(["add", "add", "replace", "replace", "delete", "delete", "restore", "fold", "remove"]):
            case "add":
                made = await _tolerant(
                    fill(document_queue, f"{chance.randrange(4)}.txt", _texts(chance), content=b"%d" % step)
                )
                if made is not None:
                    known[made.id] = ([], [])
                    collection = (await document_queue.show(made.id)).collection_id
            case "replace" if documents:
                name = documents[chance.choice(list(documents))].name
                await fill(document_queue, name, _texts(chance), content=b"%d" % step, replace=True)
            case "delete" if documents:
                await delete_document(document_queue.app, chance.choice(list(documents)))
            case "restore" if deleted:
                await _tolerant(restore_document(document_queue.app, chance.choice(deleted)))
            case "fold" if collection:
                await compact(document_queue.app.database, collection, "static")
            case "remove":
                await document_queue.job_queue.advance(chance.choice([60, 3601]))
                await remove(document_queue)
        for number in known:
            versions, jobs = await numbers(document_queue, number)
            known[number] = sorted({*known[number][0], *versions}), sorted({*known[number][1], *jobs})
        await compact_tallies(document_queue.app.database)
    await document_queue.job_queue.advance(3601)
    await remove(document_queue)
    await _check(document_queue, known, collection)


def _texts(chance: random.Random) -> list[str]:
    words = ["mill", "gate", "oak", "river", "wheel", "stone", "rye"]
    return [" ".join(chance.choices(words, k=5)) for _ in range(chance.randrange(1, 5))]


async def _tolerant(work: Any) -> Any:
    """Refusals are answers, too."""
    try:
        return await work
    except (NameTaken, WrongState):
        return None


async def _check(document_queue: DocumentQueue, known: dict[int, tuple[list[int], list[int]]], collection: int) -> None:
    documents = {each.id for each in await list_documents(document_queue.app)}
    gone = [number for number in known if number not in documents]
    assert gone, "else nothing was tried"
    versions = [version for number in gone for version in known[number][0]]
    jobs = [job for number in gone for job in known[number][1]]
    async with document_queue.app.database.pool.session() as session:
        assert await count_remaining_rows(session, gone, versions, jobs) == {}
        ref = CollectionRef(collection, "static", "english")
        assert await read_index(session, ref) == await rebuild(session, ref)
        [row] = await session.fetch(
            "select count(*)::int as documents, coalesce(sum(chunks), 0)::int as chunks, coalesce(sum(words), 0)::int as words "
            "from penstock.documents join penstock.versions on versions.id = live_id"
        )
    assert await tally(document_queue) == (row["documents"], row["chunks"], row["words"], len(gone))
    assert len(await document_queue.rows("receipts")) == len(gone)
    kept = {(row["key"]) for row in await document_queue.run("select key from penstock.blobs")}
    assert set(await document_queue.files()) == kept
    named = await document_queue.run("select count(distinct blob_id)::int as count from penstock.versions")
    assert len(kept) == named[0]["count"]
