"""Collections that are searched in Qdrant, with a worker in this process: ready only when counted, gone only when counted."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import (
    Collection,
    Upload,
    cancel_document,
    change_collection,
    create_collection,
    delete_document,
    find_collection,
    list_documents,
    restore_document,
    retry_document,
    show_document,
    show_receipt,
)
from penstock.documents.explain import explain_anything
from penstock.documents.packets import show_packets
from penstock.errors import BadValue, WrongState
from penstock.operations import verify
from penstock.product import Product
from penstock.search import CollectionRef, Found, Query, find
from penstock.search.bm25.postings import chunk_key, split_key
from penstock.settings import DatabaseUrl
from tests.pipelines.packets import COVER, PART_A, PART_B, accept
from tests.pipelines.packets import until_over as until_packet
from tests.product_with_worker import product_with_worker, rows
from tests.sample_documents import archive
from tests.search.qdrant_stand_in import RealServer, StandIn, qdrant_server, stand_in

__all__ = ["qdrant_server", "stand_in"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages and reads, and breakers that do not rest for long."""
    monkeypatch.setattr("penstock.search.qdrant.sync.VERSIONS", 3)
    monkeypatch.setattr("penstock.search.qdrant.sync.POINTS", 4)
    monkeypatch.setattr("penstock.search.qdrant.sync.READ", 3)
    monkeypatch.setattr("penstock.pipelines.qdrant.READ", 3)
    monkeypatch.setattr("penstock.product.QDRANT_REST", "1s")
    monkeypatch.setattr("penstock.search.qdrant.query.REST", 0.0)
    monkeypatch.setattr("penstock.documents.migration.FORGET_AFTER", timedelta(seconds=0.1))


@asynccontextmanager
async def searched_there(
    database_url: DatabaseUrl, home: Path, server: StandIn | RealServer, index: str = "qdrant", **settings: Any
) -> AsyncIterator[Product]:
    """A worker, and a collection `far` of small chunks."""
    chosen = {"url": server.url, "prefix": server.prefix, "timeout": "5s", "batch": 2}
    async with product_with_worker(database_url, home, qdrant=chosen, **settings) as product:
        await create_collection(product.app, "far", index=index, chunk_size=100, chunk_overlap=0)
        yield product


def text(number: int, chunks: int = 4) -> bytes:
    return "\n\n".join(f"Part {part} of document {number}: " + "water power " * 6 for part in range(chunks)).encode()


async def add(product: Product, name: str, content: bytes, **options: Any) -> int:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    return (await product.intake.accept(Upload("far", name, pieces(), len(content), **options))).id


async def until(look: Callable[[], Awaitable[Any]], within: float = 20) -> None:
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110  no event for what is in tables
            await asyncio.sleep(0.02)


async def until_over(product: Product, least: int = 1) -> dict[str, str]:
    async def over() -> bool:
        found = await list_documents(product.app, collection="far")
        return len(found) >= least and all(each.is_over for each in found)

    await until(over)
    return {each.name: each.status for each in await list_documents(product.app, collection="far")}


async def ask(product: Product, text: str = "water power", *, mode: Any = "vectors", **more: Any) -> Found:
    now = await find_collection(product.app, "far")
    ref = CollectionRef(now.id, now.model, now.search_language, now.index)
    return await find(
        product.app.database, product.models, Query(text, [ref], mode=mode, k=100, **more), product.qdrant
    )


async def names(product: Product, **more: Any) -> Counter[str]:
    return Counter(hit.name for hit in (await ask(product, **more)).hits)


async def run(product: Product, kind: str, **args: Any) -> Any:
    """A job of the product, to its end."""
    return await product.app.result(await product.app.enqueue(product.app.kinds[kind](**args)), timeout="20s")


async def reconcile(product: Product) -> dict[str, int]:
    """A whole round."""
    done: dict[str, int] = await run(product, "reconcile_points")
    return done


async def is_true(product: Product) -> None:
    assert [said for verdict in await verify(product.app.database) for said in verdict.shown] == []


async def test_a_document_is_ready_when_its_points_are_counted(
    database_url: DatabaseUrl, tmp_path: Path, qdrant_server: StandIn | RealServer
) -> None:
    async with searched_there(database_url, tmp_path, qdrant_server) as product:
        document = await add(product, "a.txt", text(1, 7))
        await add(product, "empty.txt", b" ")
        await until_over(product, 2)
        shown = await show_document(product.app, document)
        assert (shown.status, shown.chunks) == ("ready", 7)
        name = f"{qdrant_server.prefix}static"
        assert await qdrant_server.count(name) == 7
        assert await names(product) == {"a.txt": 7}
        hit = (await ask(product, "part 3 of document 1", mode="hybrid")).hits[0]
        assert (hit.name, hit.document) == ("a.txt", document)
        events = await rows(product, "select event from penstock.events where document_id = $1 order by id", document)
        assert [row["event"] for row in events] == ["accepted", "prepared", "ready"]
        assert await rows(product, "select from penstock.unpublished") == []
        assert await reconcile(product) == {"versions": 2, "chunks": 7, "missing": 0, "stale": 0, "orphaned": 0}
        await is_true(product)


async def test_who_forgets_what_it_took_makes_nothing_ready(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    async with searched_there(database_url, tmp_path, stand_in) as product:
        stand_in.mood = "forgets"
        document = await add(product, "a.txt", text(1))

        async def failed_once() -> bool:
            found = await rows(product, "select from penstock.jobs where failures > 0")
            return bool(found)

        await until(failed_once)
        assert (await show_document(product.app, document)).status == "processing"
        assert (await names(product)) == {}
        stand_in.mood = "well"
        assert await until_over(product) == {"a.txt": "ready"}
        assert await stand_in.count() == 4


async def test_while_it_is_away_documents_wait_and_no_try_is_spent(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    async with searched_there(database_url, tmp_path, stand_in) as product:
        await stand_in.stop()
        documents = [await add(product, f"{number}.txt", text(number)) for number in range(6)]

        async def opened() -> bool:
            return bool(
                await rows(product, "select from penstock.limits where name = 'qdrant' and opened_at is not null")
            )

        async def all_wait() -> bool:
            found = await rows(product, "select count(*) as n from penstock.unpublished where job_id is not null")
            return bool(found[0]["n"] == 6)

        await until(opened)
        await until(all_wait)
        told = await explain_anything(product.app, str(documents[-1]))
        assert told.state == "processing"
        assert "qdrant" in told.sentence.lower()
        assert (
            await product.app.database.pool.repeat(lambda s: s.fetchval("select sum(failures) from penstock.jobs"))
        ) == 0
        await stand_in.start()
        states = await until_over(product, 6)
        assert set(states.values()) == {"ready"}
        assert await stand_in.count() == 24
        await is_true(product)


async def test_archives_and_what_is_inside(database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn) -> None:
    async with searched_there(database_url, tmp_path, stand_in) as product:
        await add(product, "packed.zip", archive(first_txt=text(1, 3), second_txt=text(2, 2)))
        assert set((await until_over(product, 3)).values()) == {"ready"}
        assert await stand_in.count() == 6, "the archive has a list of what is in it"
        assert sum((await names(product)).values()) == 6


async def test_a_packet_is_ready_with_the_points_of_all_its_documents(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    """All of them wait for one job, are published in its one transaction, and fail or are tried again with it."""
    async with searched_there(database_url, tmp_path, stand_in) as product:
        await change_collection(product.app, "papers", index="qdrant")
        stand_in.mood = "forgets"
        files = {"cover.txt": COVER.encode(), "a.txt": PART_A.encode(), "b.txt": PART_B.encode()}
        packet = await accept(product, "case", files)

        async def waiting() -> bool:
            [row] = await rows(
                product, "select count(*) as n, count(distinct job_id) as jobs from penstock.unpublished"
            )
            return (row["n"], row["jobs"]) == (4, 1)

        await until(waiting, within=60)
        shown = await list_documents(product.app, collection="papers")
        assert {each.status for each in shown} == {"processing"}
        stand_in.mood = "well"
        assert (await until_packet(product, packet.id)).status == "ready"
        shown = await list_documents(product.app, collection="papers")
        assert {each.status for each in shown} == {"ready"}
        assert len(shown) == 4
        assert await stand_in.count() == 3
        async with product.app.database.pool.session() as session:
            whole = (await show_packets(session, [packet.id]))[packet.id]
        assert [part.label for part in whole.parts] == ["cover", "A", "B"]
        await is_true(product)


async def test_a_replaced_version_leaves_nothing(database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn) -> None:
    """Until the new one is there, the old one is found; then its points go."""
    async with searched_there(database_url, tmp_path, stand_in) as product:
        await add(product, "a.txt", text(1, 6))
        await until_over(product)
        stand_in.mood = "forgets"
        await add(product, "a.txt", text(2, 3), replace=True)
        await until(lambda: rows(product, "select from penstock.unpublished"))
        assert "document 1" in (await ask(product)).hits[0].text
        stand_in.mood = "well"
        await until_over(product)
        assert "document 2" in (await ask(product)).hits[0].text
        assert sum((await names(product)).values()) == 3, "also while the old points are there"
        await run(product, "tidy_documents")
        await run(product, "tidy_documents")

        async def gone() -> bool:
            return not await rows(product, "select from penstock.leaving_points") and await stand_in.count() == 3

        await until(gone)
        await is_true(product)


async def test_a_deletion_is_proved(database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn) -> None:
    """Invisible at once; the receipt says so when Qdrant has nothing any more, however long that takes."""
    async with searched_there(database_url, tmp_path, stand_in) as product:
        document = await add(product, "a.txt", text(1))
        await add(product, "b.txt", text(2))
        await until_over(product, 2)
        await stand_in.stop()
        await delete_document(product.app, document, now=True)
        assert await names(product) == {"b.txt": 4}

        async def has_receipt() -> bool:
            return bool(await rows(product, "select from penstock.receipts"))

        await until(has_receipt)
        await run(product, "tidy_documents")
        assert (await show_receipt(product.app, document)).verified is None
        await stand_in.start()

        async def verified() -> bool:
            return (await show_receipt(product.app, document)).verified is not None

        await run(product, "tidy_documents")
        await until(verified)
        receipt = await show_receipt(product.app, document)
        assert receipt.verified is not None
        assert receipt.verified["counted"]["points"] == 0
        assert {split_key(int(key))[1] for key in stand_in.points()} == {0, 1, 2, 3}
        assert await stand_in.count() == 4


async def test_what_is_restored_has_its_points(database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn) -> None:
    async with searched_there(database_url, tmp_path, stand_in, documents={"restore_within": "1h"}) as product:
        document = await add(product, "a.txt", text(1))
        await until_over(product)
        await delete_document(product.app, document)
        assert await names(product) == {}
        assert (await reconcile(product))["orphaned"] == 0, "it may come back"
        await restore_document(product.app, document)
        assert await names(product) == {"a.txt": 4}
        assert (await reconcile(product))["missing"] == 0


async def test_both_sides_are_the_same_after_the_reconciler(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    async with searched_there(database_url, tmp_path, stand_in) as product:
        for number in range(5):
            await add(product, f"{number}.txt", text(number))
        await until_over(product, 5)
        right = {int(key): value[1] for key, value in stand_in.points().items()}
        points = stand_in.points()
        first, *_, last = sorted(right)
        vector = [0.1] * 256
        lost = [first, last, sorted(right)[7]]
        for key in lost:
            del points[key]
        stale = sorted(right)[3]
        points[stale] = (vector, {"collection": 99})
        payload = {"collection": 1, "version": 9999, "ordinal": 0, "tenant": "default"}
        for orphan in (chunk_key(9999, 0), chunk_key(split_key(last)[0], 500), 5):
            points[orphan] = (vector, payload)
        points[str(uuid.uuid4())] = (vector, {})
        done = await reconcile(product)
        assert (done["missing"], done["stale"], done["orphaned"]) == (3, 1, 4)
        assert {key: value[1] for key, value in stand_in.points().items()} == right
        findings = await rows(
            product, "select sentence, repair, ended_at from penstock.findings where check_name = 'points'"
        )
        assert all(row["ended_at"] is not None for row in findings)
        assert any("lacked" in row["sentence"] for row in findings)
        assert any("whose ids are not of Penstock" in row["sentence"] for row in findings)
        again = await reconcile(product)
        assert (again["versions"], again["chunks"], again["missing"], again["orphaned"]) == (5, 20, 0, 0)


async def test_all_of_it_is_written_again_when_it_is_lost(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    async with searched_there(database_url, tmp_path, stand_in) as product:
        for number in range(5):
            await add(product, f"{number}.txt", text(number))
        await until_over(product, 5)
        stand_in.kept.clear()
        assert sum((await names(product)).values()) == 0
        product.qdrant._prepared.clear()  # type: ignore[union-attr]
        assert (await reconcile(product))["missing"] == 20
        assert sum((await names(product)).values()) == 20


async def test_cancelled_while_it_waits_it_can_be_tried_again(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    """The second time it is prepared from the beginning, in other chunks; what the first has left there goes."""
    async with searched_there(database_url, tmp_path, stand_in) as product:
        gate = asyncio.Event()

        async def wait(path: str) -> None:
            if path.endswith("/points/count"):
                await gate.wait()

        stand_in.before = wait
        document = await add(product, "a.txt", text(1, 8))

        async def written() -> bool:
            return await stand_in.count() == 8

        await until(written)
        await cancel_document(product.app, document)
        assert await until_over(product) == {"a.txt": "failed"}
        gate.set()
        await change_collection(product.app, "far", chunk_size=400)
        await retry_document(product.app, document)
        assert await until_over(product) == {"a.txt": "ready"}
        shown = await show_document(product.app, document)
        assert shown.chunks is not None
        assert shown.chunks < 8
        assert await stand_in.count() == shown.chunks
        assert (await reconcile(product))["orphaned"] == 0


async def until_index(product: Product, index: str) -> Collection:
    async def there() -> bool:
        found = await find_collection(product.app, "far")
        assert not found.is_stuck, found.trouble
        return found.index == index and found.next_index is None

    await until(there)
    return await find_collection(product.app, "far")


async def test_there_and_back_without_a_gap(
    database_url: DatabaseUrl, tmp_path: Path, qdrant_server: StandIn | RealServer
) -> None:
    async with searched_there(
        database_url, tmp_path, qdrant_server, index="postgres", search={"exact_up_to": 10}
    ) as product:
        for number in range(8):
            await add(product, f"{number}.txt", text(number))
        await until_over(product, 8)
        name = f"{qdrant_server.prefix}static"
        seen: set[int] = set()
        stop = asyncio.Event()

        async def ask_on() -> None:
            while not stop.is_set():
                seen.add(sum(count for name, count in (await names(product)).items() if name != "late.txt"))
                await asyncio.sleep(0.01)

        asking = asyncio.create_task(ask_on())
        await change_collection(product.app, "far", index="qdrant")
        await add(product, "late.txt", text(99))
        await until_index(product, "qdrant")
        await until_over(product, 9)
        assert await qdrant_server.count(name) == 36
        assert await names(product) == dict.fromkeys([*(f"{n}.txt" for n in range(8)), "late.txt"], 4)

        await change_collection(product.app, "far", index="postgres")
        found = await until_index(product, "postgres")
        hnsw = f"select to_regclass('penstock.folded_vectors_static_{found.id}') is not null as there"
        assert (await rows(product, hnsw))[0]["there"], "a large collection has its index before the switch"

        async def forgotten() -> bool:
            return not (await rows(product, "select has_points from penstock.collections where name = 'far'"))[0][0]

        await until(forgotten)
        assert await qdrant_server.count(name) == 0
        assert sum((await names(product)).values()) == 36

        await change_collection(product.app, "far", index="qdrant")
        await until_index(product, "qdrant")

        async def dropped() -> bool:
            return not (await rows(product, hnsw))[0]["there"]

        await until(dropped)
        stop.set()
        await asking
        assert seen == {32}
        await is_true(product)


async def test_a_reindex_that_is_cancelled_leaves_nothing(
    database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn
) -> None:
    async with searched_there(database_url, tmp_path, stand_in, index="postgres") as product:
        for number in range(5):
            await add(product, f"{number}.txt", text(number))
        await until_over(product, 5)
        gate = asyncio.Event()

        async def wait(path: str) -> None:
            if path.endswith("/scroll") and await stand_in.count() > 5:
                await gate.wait()

        stand_in.before = wait
        await change_collection(product.app, "far", index="qdrant")

        async def some() -> bool:
            return await stand_in.count() > 5

        await until(some)
        found = await find_collection(product.app, "far")
        assert (found.index, found.next_index) == ("postgres", "qdrant")
        await change_collection(product.app, "far", index="postgres")
        gate.set()

        async def nothing() -> bool:
            [row] = await rows(product, "select * from penstock.collections where name = 'far'")
            return row["next_index"] is None and not row["has_points"] and await stand_in.count() == 0

        await until(nothing)
        assert sum((await names(product)).values()) == 20


async def test_another_model_is_refused(database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn) -> None:
    models = {"other": {"url": "http://127.0.0.1:9/v1", "model": "bge", "dimensions": 3}}
    async with searched_there(database_url, tmp_path, stand_in, models=models) as product:
        with pytest.raises(WrongState, match="penstock collections reindex far --into postgres"):
            await change_collection(product.app, "far", model="other")


async def test_without_a_qdrant_a_collection_cannot_be_searched_there(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        with pytest.raises(BadValue, match=r"set qdrant\.url"):
            await create_collection(product.app, "far", index="qdrant")
