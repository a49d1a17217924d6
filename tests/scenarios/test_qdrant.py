"""Qdrant is away, points come and go behind our back, workers are killed everywhere: in the end both stores have the same."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from penstock.documents import change_collection, create_collection, delete_document, find_collection
from penstock.product import Product
from penstock.search import CollectionRef, Query, find
from penstock.search.bm25.postings import chunk_key, split_key
from penstock.settings import DatabaseUrl
from tests.product_with_worker import running_worker
from tests.sample_documents import archive, story
from tests.scenarios.product_processes import ProductProcesses
from tests.search.qdrant_stand_in import StandIn, stand_in

pytestmark = pytest.mark.slow

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
async def product_processes(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProductProcesses]:
    """All processes know of the same Qdrant."""
    monkeypatch.setattr("penstock.product.QDRANT_REST", "1s")
    monkeypatch.setattr("penstock.documents.migration.FORGET_AFTER", "1s")
    connection = await asyncpg.connect(database_url.reveal())
    qdrant = {"url": stand_in.url, "timeout": "5s", "batch": 8}
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}, qdrant=qdrant) as product:
        await create_collection(product.app, "papers", index="qdrant", chunk_size=200)
        made = ProductProcesses(product, connection, database_url)
        made._environ |= {f"PENSTOCK_QDRANT__{key.upper()}": str(value) for key, value in qdrant.items()}
        try:
            yield made
        finally:
            await made.close()
    await connection.close()


async def run(product_processes: ProductProcesses, kind: str) -> None:
    app = product_processes.product.app
    await app.result(await app.enqueue(app.kinds[kind]()), timeout="30s")


async def check_both_sides(product_processes: ProductProcesses, server: StandIn) -> None:
    """What search sees is there, point by point; and nothing else is."""
    rows = await product_processes.connection.fetch(LIVE)
    assert {chunk_key(row["version_id"], row["ordinal"]) for row in rows} == set(server.points())
    assert await product_processes.connection.fetch("select * from penstock.unpublished") == []
    assert await product_processes.connection.fetch("select * from penstock.leaving_points") == []
    assert await product_processes.violations() == []


async def ask(product_processes: ProductProcesses) -> int:
    product = product_processes.product
    now = await find_collection(product.app, "papers")
    ref = CollectionRef(now.id, now.model, now.search_language, now.index)
    query = Query("turbine", [ref], k=50, mode="vectors")
    return len((await find(product.app.database, product.models, query, product.qdrant)).hits)


async def fill(product_processes: ProductProcesses) -> dict[str, int]:
    added = await product_processes.add(FILES)
    async with running_worker(product_processes.product):
        await product_processes.until(READY, len(FILES), within=60)
    return added


async def test_an_outage_while_documents_come(product_processes: ProductProcesses, stand_in: StandIn) -> None:
    """They are processed as far as they can be, say why they are not ready, and catch up by themselves."""
    await stand_in.stop()
    await product_processes.start_api()
    async with running_worker(product_processes.product):
        for name, content in FILES.items():
            status, _ = await product_processes.put(name, content)
            assert status in {201, 202}
        await product_processes.until("select count(*) = 8 from penstock.unpublished", within=60)
        await product_processes.until("select opened_at is not null from penstock.limits where name = 'qdrant'")
        [document, *_] = await product_processes.connection.fetch("select id from penstock.documents order by id desc")
        told = await product_processes.get(f"/api/documents/{document['id']}/why")
        assert "qdrant" in told["sentence"], told
        shown = await product_processes.get("/api/search?q=turbine")
        assert shown["hits"] == []
        assert await product_processes.connection.fetchval("select count(*) from penstock.jobs where failures > 0") == 0
        await stand_in.start()
        await product_processes.until(READY, len(FILES), within=60)
        assert len((await product_processes.get("/api/search?q=turbine"))["hits"]) > 0
    await check_both_sides(product_processes, stand_in)


async def test_points_that_go_and_come_behind_our_back(product_processes: ProductProcesses, stand_in: StandIn) -> None:
    await fill(product_processes)
    points = stand_in.points()
    found = await ask(product_processes)
    for key in sorted(points)[::3]:
        del points[key]
    nobody = {"collection": 1, "version": 4711, "ordinal": 0, "tenant": "default"}
    for ordinal in range(30):
        points[chunk_key(4711, ordinal)] = ([0.1] * 256, nobody)
    assert await ask(product_processes) == found, "what is nobody's is not found; of the rest there is enough"
    async with running_worker(product_processes.product):
        await run(product_processes, "reconcile_points")
    await check_both_sides(product_processes, stand_in)


KILLS = [  # where, and what is done to get there
    ("step:points-written", "add"),
    ("step:points-count", "add"),
    ("step:points-published", "add"),
    ("step:points-removed", "delete"),
    ("step:points-forgotten", "delete"),
    ("step:points-repaired", "lose"),
    ("step:points-compare@2", "lose"),
    ("step:reindex-written", "reindex"),
    ("step:reindex-switched", "reindex"),
    ("after-commit-before-ack", "add"),
]


async def test_killed_in_every_part_it_goes_on(product_processes: ProductProcesses, stand_in: StandIn) -> None:
    added = await fill(product_processes)
    app = product_processes.product.app
    deleted = 0
    for number, (place, what) in enumerate(KILLS):
        point, _, passage = place.partition("@")
        if what == "add":
            await product_processes.add({f"more-{number}.txt": story(2_000, 100 + number)})
        elif what == "delete":
            deleted += 1
            await delete_document(app, added[f"{deleted}.txt"], now=True)
        elif what == "lose":
            del stand_in.points()[min(stand_in.points())]
            await app.enqueue(app.kinds["reconcile_points"]())
        else:
            into = "postgres" if (await find_collection(app, "papers")).index == "qdrant" else "qdrant"
            if into == "postgres":  # the way back is short: from there it begins
                async with running_worker(product_processes.product):
                    await change_collection(app, "papers", index=into)
                    await product_processes.until(SEARCHED_IN, into)
                    await product_processes.until(
                        "select not has_points from penstock.collections where name = 'papers'"
                    )
            assert await stand_in.count() == 0
            await change_collection(app, "papers", index="qdrant")
        victim = await product_processes.start_worker(
            ready=False, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage or 1}"
        )
        try:
            code = await victim.end(30)
        except TimeoutError:
            raise AssertionError(f"{place} was not reached:\n{victim.logged}") from None
        assert code == -signal.SIGKILL, (place, victim.logged)
        async with running_worker(product_processes.product):
            await product_processes.until_over()
            await product_processes.until(SEARCHED_IN, "qdrant")
            await product_processes.until(VERIFIED if deleted else "select $1 = 0", deleted, within=60)
            await run(product_processes, "reconcile_points")
        await check_both_sides(product_processes, stand_in)


async def test_a_deletion_is_proved_though_qdrant_is_away_at_first(
    product_processes: ProductProcesses, stand_in: StandIn
) -> None:
    added = await product_processes.add(
        {"packed.zip": archive(first_txt=story(400, 1), second_txt=story(400, 2)), **FILES}
    )
    async with running_worker(product_processes.product):
        await product_processes.until(READY, len(FILES) + 3, within=60)
        mine = set(
            await product_processes.connection.fetchval(
                "select array_agg(live_id) from penstock.documents where name like 'packed.zip%'"
            )
        )
        assert mine <= {split_key(int(key))[0] for key in stand_in.points()}
        await stand_in.stop()
        await delete_document(product_processes.product.app, added["packed.zip"], now=True)
        await product_processes.until("select count(*) = 3 from penstock.receipts")
        assert (
            await product_processes.connection.fetchval(
                "select count(*) from penstock.receipts where verified_at is not null"
            )
            == 0
        )
        await stand_in.start()
        await product_processes.until("select not exists (select from penstock.leaving_points)", within=60)
        await run(product_processes, "tidy_documents")
        await product_processes.until(VERIFIED, 3, within=60)
    assert mine.isdisjoint({split_key(int(key))[0] for key in stand_in.points()})
    counted = await product_processes.connection.fetch(
        "select verified -> 'counted' ->> 'points' as points from penstock.receipts"
    )
    assert [row["points"] for row in counted] == ["0"] * 3
    await check_both_sides(product_processes, stand_in)


async def test_a_deletion_while_it_is_being_written(product_processes: ProductProcesses, stand_in: StandIn) -> None:
    """Its job ends with the next heartbeat, its points go; whoever was late is found by the reconciler."""
    gate = asyncio.Event()
    written = asyncio.Event()

    async def wait(path: str) -> None:
        if path.endswith("/points/count"):
            written.set()
            await gate.wait()

    stand_in.before = wait
    added = await product_processes.add({"a.txt": FILES["0.txt"]})
    async with running_worker(product_processes.product):
        async with asyncio.timeout(30):
            await written.wait()
        assert await stand_in.count() > 0
        await delete_document(product_processes.product.app, added["a.txt"], now=True)
        gate.set()
        await product_processes.until(VERIFIED, 1, within=60)
        await run(product_processes, "reconcile_points")
    await check_both_sides(product_processes, stand_in)
