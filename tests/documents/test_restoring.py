"""What was deleted comes back while it can, with all that was deleted with it, and the counts follow."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import (
    add_members,
    compact_tallies,
    delete_collection,
    delete_document,
    list_documents,
    load_work,
    publish,
    remove_deleted,
    restore_document,
    show_receipt,
)
from penstock.engine import Penstock
from penstock.engine.outcome import Cancelled
from penstock.errors import NameTaken, NotFound, WrongState
from penstock.search import CollectionRef, fold
from penstock.settings import DatabaseUrl
from tests.documents.conftest import Office, pieces, prepare_document
from tests.documents.filling import fill, numbers, prepare
from tests.leftovers import count_leftovers
from tests.search.rebuild import read_index, rebuild


@pytest.fixture
async def app(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Penstock]:
    app = Penstock(
        database_url=database_url, home=tmp_path, pool={"size": 4, "warm": 1}, documents={"restore_within": "1h"}
    )
    app.job(queue="documents", depth=app.settings.limits.waiting)(prepare_document)
    async with app:
        yield app


async def remove(office: Office) -> int:
    return await remove_deleted(office.app.database, office.store, rest=0)


async def tally(office: Office) -> tuple[int, ...]:
    [row] = await office.run(
        "select coalesce(sum(documents), 0)::int, coalesce(sum(chunks), 0)::int, coalesce(sum(words), 0)::int, "
        "coalesce(sum(deleted), 0)::int from penstock.tallies"
    )
    return tuple(row)


async def test_what_was_live_is_live_again(office: Office) -> None:
    made = await fill(office, metadata={"client": "Acme"})
    before, counted = await office.show(made.id), await tally(office)
    await delete_document(office.app, made.id)
    assert await tally(office) == (0, 0, 0, 1)
    assert await remove(office) == 0, "there is time"
    back = await restore_document(office.app, made.id)
    assert (back.status, back.live_id, back.metadata) == ("ready", before.live_id, {"client": "Acme"})
    assert await tally(office) == counted
    assert await office.rows("hidden_versions") == []
    assert await office.rows("removals") == []
    assert (await office.events(made.id))[-2:] == ["deleted", "restored"]
    await office.shop.advance(7200)
    assert await remove(office) == 0
    assert len(await office.rows("chunks")) == 2


async def test_what_was_not_ready_is_prepared_by_a_new_job(office: Office) -> None:
    queued = await office.add("queued.txt", b"one")
    failed = await office.add("failed.txt", b"two")
    jobs = {json.loads(job.args)["document"]: job for job in await office.claim()}
    await office.bury(jobs[failed.id])
    await office.shop.settle(await office.worker(), (jobs[queued.id], Cancelled()))
    for each in (queued, failed):
        await delete_document(office.app, each.id)
        back = await restore_document(office.app, each.id)
        assert (back.status, back.job != each.job) == ("queued", True)
        assert await prepare(office, await office.claim_one(), ["text"])
        assert await office.status(each.id) == "ready"
    assert (await tally(office))[0] == 2


async def test_an_old_version_is_live_again_while_the_new_one_is_prepared(office: Office) -> None:
    made = await fill(office)
    live = (await office.show(made.id)).live_id
    await office.add("a.txt", b"other", replace=True)
    await delete_document(office.app, made.id)
    back = await restore_document(office.app, made.id)
    assert (back.status, back.live_id, back.version) == ("queued", live, 2)
    assert await prepare(office, await office.claim_one(), ["new"])
    assert (await office.show(made.id)).live_version == 2


async def with_members(office: Office, name: str, *inside: str) -> int:
    made = await office.add(name, name.encode())
    job = await office.claim_one()
    args = json.loads(job.args)
    stored = [(each, await office.store.write(pieces(f"{name} {each}".encode()), most=1000)) for each in inside]
    context = office.shop.context(job, await office.worker(), office.kind)
    async with context.finish() as tx:
        work = await load_work(tx, args["document"], args["version"])
        assert work is not None
        await publish(tx, work, media_type="application/zip", pages=0, chunks=0, words=0)
        await add_members(tx, office.app, work, stored)
    for member in await office.claim():
        await prepare(office, member, ["inside"])
    return made.id


async def test_members_come_back_with_their_parent_but_not_those_that_were_deleted_before(office: Office) -> None:
    parent = await with_members(office, "a.zip", "one", "two", "three")
    by_name = {each.name: each.id for each in await list_documents(office.app)}
    await delete_document(office.app, by_name["a.zip!/two"])
    await delete_document(office.app, parent)
    assert await list_documents(office.app) == []
    with pytest.raises(WrongState, match=f"inside of document {parent}, which is deleted: restore that one"):
        await restore_document(office.app, by_name["a.zip!/one"])
    await restore_document(office.app, parent)
    assert {each.name for each in await list_documents(office.app)} == {"a.zip", "a.zip!/one", "a.zip!/three"}
    await restore_document(office.app, by_name["a.zip!/two"])
    assert (await tally(office))[0] == 4


async def test_a_name_that_is_taken_meanwhile_is_not_taken_away(office: Office) -> None:
    made = await fill(office)
    await delete_document(office.app, made.id)
    other = await fill(office, content=b"other")
    with pytest.raises(NameTaken) as refused:
        await restore_document(office.app, made.id)
    assert refused.value.existing == other.id
    await delete_document(office.app, other.id)
    assert (await restore_document(office.app, made.id)).status == "ready"


async def test_what_is_gone_cannot_come_back_and_says_why(office: Office) -> None:
    made, late, lost = [await fill(office, f"{n}.txt") for n in range(3)]
    with pytest.raises(WrongState, match="is ready: there is nothing to restore"):
        await restore_document(office.app, made.id)
    with pytest.raises(NotFound):
        await restore_document(office.app, 12345)
    await delete_document(office.app, made.id)
    await delete_document(office.app, late.id)
    await office.shop.advance(3601)
    with pytest.raises(WrongState, match="cannot be restored any more"):
        await restore_document(office.app, late.id)
    assert await remove(office) == 2
    with pytest.raises(WrongState, match=r"was removed at .* UTC: upload it again"):
        await restore_document(office.app, made.id)
    assert (await show_receipt(office.app, made.id)).verified_at is not None
    await delete_collection(office.app, "files")
    with pytest.raises(WrongState, match="which is deleted"):
        await restore_document(office.app, lost.id)


async def test_it_waits_for_the_end_of_the_old_job(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.documents.restoring.PATIENCE", 0.3)
    made = await office.add()
    job = await office.claim_one()
    await delete_document(office.app, made.id)
    with pytest.raises(WrongState, match="try again in a moment"):
        await restore_document(office.app, made.id)
    assert await office.status(made.id) == "deleted"
    await office.shop.settle(await office.worker(), (job, Cancelled()))
    assert (await restore_document(office.app, made.id)).status == "queued"


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_done_the_counts_and_the_index_are_right(office: Office, seed: int) -> None:
    """Random adds, replacements, deletions, restores, folds and removals on a few names."""
    chance = random.Random(seed)
    known: dict[int, tuple[list[int], list[int]]] = {}
    collection = 0
    for step in range(60):
        documents = {each.id: each for each in await list_documents(office.app)}
        deleted = [number for number in known if number not in documents]
        match chance.choice(["add", "add", "replace", "replace", "delete", "delete", "restore", "fold", "remove"]):
            case "add":
                made = await _tolerant(fill(office, f"{chance.randrange(4)}.txt", _texts(chance), content=b"%d" % step))
                if made is not None:
                    known[made.id] = ([], [])
                    collection = (await office.show(made.id)).collection_id
            case "replace" if documents:
                name = documents[chance.choice(list(documents))].name
                await fill(office, name, _texts(chance), content=b"%d" % step, replace=True)
            case "delete" if documents:
                await delete_document(office.app, chance.choice(list(documents)))
            case "restore" if deleted:
                await _tolerant(restore_document(office.app, chance.choice(deleted)))
            case "fold" if collection:
                await fold(office.app.database, collection, "static")
            case "remove":
                await office.shop.advance(chance.choice([60, 3601]))
                await remove(office)
        for number in known:
            versions, jobs = await numbers(office, number)
            known[number] = sorted({*known[number][0], *versions}), sorted({*known[number][1], *jobs})
        await compact_tallies(office.app.database)
    await office.shop.advance(3601)
    await remove(office)
    await _check(office, known, collection)


def _texts(chance: random.Random) -> list[str]:
    words = ["mill", "gate", "oak", "river", "wheel", "stone", "rye"]
    return [" ".join(chance.choices(words, k=5)) for _ in range(chance.randrange(1, 5))]


async def _tolerant(work: Any) -> Any:
    """Refusals are answers, too."""
    try:
        return await work
    except (NameTaken, WrongState):
        return None


async def _check(office: Office, known: dict[int, tuple[list[int], list[int]]], collection: int) -> None:
    documents = {each.id for each in await list_documents(office.app)}
    gone = [number for number in known if number not in documents]
    assert gone, "else nothing was tried"
    versions = [version for number in gone for version in known[number][0]]
    jobs = [job for number in gone for job in known[number][1]]
    async with office.app.database.pool.session() as session:
        assert await count_leftovers(session, gone, versions, jobs) == {}
        ref = CollectionRef(collection, "static", "english")
        assert await read_index(session, ref) == await rebuild(session, ref)
        [row] = await session.fetch(
            "select count(*)::int as documents, coalesce(sum(chunks), 0)::int as chunks, coalesce(sum(words), 0)::int as words "
            "from penstock.documents join penstock.versions on versions.id = live_id"
        )
    assert await tally(office) == (row["documents"], row["chunks"], row["words"], len(gone))
    assert len(await office.rows("receipts")) == len(gone)
    kept = {(row["key"]) for row in await office.run("select key from penstock.blobs")}
    assert set(await office.files()) == kept
    named = await office.run("select count(distinct blob_id)::int as count from penstock.versions")
    assert len(kept) == named[0]["count"]
