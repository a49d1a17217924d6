"""Qdrant is away, points come and go behind our back, workers are killed everywhere: in the end both stores have the same."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from penstock.documents import change_collection, create_collection, delete_document, find_collection
from penstock.pipelines import Product
from penstock.search import CollectionRef, Query, find
from penstock.search.entries import chunk_key, split_key
from penstock.settings import DatabaseUrl
from tests.scenarios.library import Library
from tests.scenarios.made import archive, story
from tests.scenarios.test_reembedding import at_work
from tests.search.qdrant_stand_in import StandIn, stand_in

__all__ = ["stand_in"]

FILES = {f"{number}.txt": story(2_000, number) for number in range(8)}
LIVE = (
    "select chunk.version_id, chunk.ordinal from penstock.documents as document "
    "join penstock.chunks as chunk on chunk.version_id = document.live_id"
)
READY = "select count(*) = $1 and bool_and(state = 'ready') from penstock.documents where state <> 'deleted'"
VERIFIED = "select count(*) = $1 and bool_and(verified_at is not null) from penstock.receipts"
SEARCHED_IN = "select index = $1 and next_index is null from penstock.collections where name = 'papers'"


@pytest.fixture
async def library(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Library]:
    """All processes know of the same Qdrant."""
    monkeypatch.setattr("penstock.pipelines.product.QDRANT_REST", "1s")
    monkeypatch.setattr("penstock.documents.reindexing.AFTER", "1s")
    connection = await asyncpg.connect(database_url.reveal())
    qdrant = {"url": stand_in.url, "timeout": "5s", "batch": 8}
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}, qdrant=qdrant) as product:
        await create_collection(product.app, "papers", index="qdrant", chunk_size=200)
        made = Library(product, connection, database_url)
        made._environ |= {f"PENSTOCK_QDRANT__{key.upper()}": str(value) for key, value in qdrant.items()}
        try:
            yield made
        finally:
            await made.close()
    await connection.close()


async def run(library: Library, kind: str) -> None:
    app = library.product.app
    await app.result(await app.enqueue(app.kinds[kind]()), timeout="30s")


async def check_both_sides(library: Library, server: StandIn) -> None:
    """What search sees is there, point by point; and nothing else is."""
    rows = await library.connection.fetch(LIVE)
    assert {chunk_key(row["version_id"], row["ordinal"]) for row in rows} == set(server.points())
    assert await library.connection.fetch("select * from penstock.unpublished") == []
    assert await library.connection.fetch("select * from penstock.leaving_points") == []
    assert await library.violations() == []


async def ask(library: Library) -> int:
    product = library.product
    now = await find_collection(product.app, "papers")
    ref = CollectionRef(now.id, now.model, now.search_language, now.index)
    query = Query("turbine", [ref], k=50, mode="vectors")
    return len((await find(product.app.database, product.models, query, product.qdrant)).hits)


async def fill(library: Library) -> dict[str, int]:
    added = await library.add(FILES)
    async with at_work(library.product):
        await library.until(READY, len(FILES), within=60)
    return added


async def test_an_outage_while_documents_come(library: Library, stand_in: StandIn) -> None:
    """They are processed as far as they can be, say why they are not ready, and catch up by themselves."""
    await stand_in.stop()
    await library.serve()
    async with at_work(library.product):
        for name, content in FILES.items():
            status, _ = await library.put(name, content)
            assert status in {201, 202}
        await library.until("select count(*) = 8 from penstock.unpublished", within=60)
        await library.until("select opened_at is not null from penstock.limits where name = 'qdrant'")
        [document, *_] = await library.connection.fetch("select id from penstock.documents order by id desc")
        told = await library.get(f"/api/documents/{document['id']}/why")
        assert "qdrant" in told["sentence"], told
        shown = await library.get("/api/search?q=turbine")
        assert shown["hits"] == []
        assert await library.connection.fetchval("select count(*) from penstock.jobs where failures > 0") == 0
        await stand_in.start()
        await library.until(READY, len(FILES), within=60)
        assert len((await library.get("/api/search?q=turbine"))["hits"]) > 0
    await check_both_sides(library, stand_in)


async def test_points_that_go_and_come_behind_our_back(library: Library, stand_in: StandIn) -> None:
    await fill(library)
    points = stand_in.points()
    found = await ask(library)
    for key in sorted(points)[::3]:
        del points[key]
    nobody = {"collection": 1, "version": 4711, "ordinal": 0, "tenant": "default"}
    for ordinal in range(30):
        points[chunk_key(4711, ordinal)] = ([0.1] * 256, nobody)
    assert await ask(library) == found, "what is nobody's is not found; of the rest there is enough"
    async with at_work(library.product):
        await run(library, "reconcile_points")
    await check_both_sides(library, stand_in)


KILLS = [  # where, and what is done to get there
    ("step:points-written", "add"),
    ("step:points-count", "add"),
    ("step:points-published", "add"),
    ("step:points-removed", "delete"),
    ("step:points-forgotten", "delete"),
    ("step:points-mended", "lose"),
    ("step:points-compare@2", "lose"),
    ("step:reindex-written", "reindex"),
    ("step:reindex-switched", "reindex"),
    ("after-commit-before-ack", "add"),
]


async def test_killed_in_every_part_it_goes_on(library: Library, stand_in: StandIn) -> None:
    added = await fill(library)
    app = library.product.app
    deleted = 0
    for number, (place, what) in enumerate(KILLS):
        point, _, passage = place.partition("@")
        if what == "add":
            await library.add({f"more-{number}.txt": story(2_000, 100 + number)})
        elif what == "delete":
            deleted += 1
            await delete_document(app, added[f"{deleted}.txt"])
        elif what == "lose":
            del stand_in.points()[min(stand_in.points())]
            await app.enqueue(app.kinds["reconcile_points"]())
        else:
            into = "postgres" if (await find_collection(app, "papers")).index == "qdrant" else "qdrant"
            if into == "postgres":  # the way back is short: from there it begins
                async with at_work(library.product):
                    await change_collection(app, "papers", index=into)
                    await library.until(SEARCHED_IN, into)
                    await library.until("select not has_points from penstock.collections where name = 'papers'")
            assert await stand_in.count() == 0
            await change_collection(app, "papers", index="qdrant")
        victim = await library.hire(ready=False, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage or 1}")
        try:
            code = await victim.end(30)
        except TimeoutError:
            raise AssertionError(f"{place} was not reached:\n{victim.logged}") from None
        assert code == -signal.SIGKILL, (place, victim.logged)
        async with at_work(library.product):
            await library.until_over()
            await library.until(SEARCHED_IN, "qdrant")
            await library.until(VERIFIED if deleted else "select $1 = 0", deleted, within=60)
            await run(library, "reconcile_points")
        await check_both_sides(library, stand_in)


async def test_a_deletion_is_proved_though_qdrant_is_away_at_first(library: Library, stand_in: StandIn) -> None:
    added = await library.add({"packed.zip": archive(first_txt=story(400, 1), second_txt=story(400, 2)), **FILES})
    async with at_work(library.product):
        await library.until(READY, len(FILES) + 3, within=60)
        mine = set(
            await library.connection.fetchval(
                "select array_agg(live_id) from penstock.documents where name like 'packed.zip%'"
            )
        )
        assert mine <= {split_key(int(key))[0] for key in stand_in.points()}
        await stand_in.stop()
        await delete_document(library.product.app, added["packed.zip"])
        await library.until("select count(*) = 3 from penstock.receipts")
        assert (
            await library.connection.fetchval("select count(*) from penstock.receipts where verified_at is not null")
            == 0
        )
        await stand_in.start()
        await library.until("select not exists (select from penstock.leaving_points)", within=60)
        await run(library, "tidy_documents")
        await library.until(VERIFIED, 3, within=60)
    assert mine.isdisjoint({split_key(int(key))[0] for key in stand_in.points()})
    counted = await library.connection.fetch(
        "select verified -> 'counted' ->> 'points' as points from penstock.receipts"
    )
    assert [row["points"] for row in counted] == ["0"] * 3
    await check_both_sides(library, stand_in)


async def test_a_deletion_while_it_is_being_written(library: Library, stand_in: StandIn) -> None:
    """Its job ends with the next beat, its points go; whoever was late is found by the reconciler."""
    gate = asyncio.Event()
    written = asyncio.Event()

    async def wait(path: str) -> None:
        if path.endswith("/points/count"):
            written.set()
            await gate.wait()

    stand_in.before = wait
    added = await library.add({"a.txt": FILES["0.txt"]})
    async with at_work(library.product):
        async with asyncio.timeout(30):
            await written.wait()
        assert await stand_in.count() > 0
        await delete_document(library.product.app, added["a.txt"])
        gate.set()
        await library.until(VERIFIED, 1, within=60)
        await run(library, "reconcile_points")
    await check_both_sides(library, stand_in)
