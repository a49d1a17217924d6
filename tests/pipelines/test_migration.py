"""Re-embedding with a worker in this process: search has no gap, whatever happens to documents and to the model."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from penstock.documents import Collection, Upload, change_collection, delete_document, find_collection
from penstock.pipelines import migration
from penstock.product import Product
from penstock.search import CollectionRef, Query, find
from penstock.settings import DatabaseUrl
from tests.models.endpoint import Server, serve
from tests.product_with_worker import product_with_worker, rows, until_over

TABLES = ("vectors_static", "folded_vectors_static", "vectors_other", "folded_vectors_other")


def other(server: Server) -> dict[str, Any]:
    return {"other": {"url": f"http://127.0.0.1:{server.port}/v1", "model": "bge", "dimensions": 3, "batch": 16}}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages, and no patience with old vectors."""
    monkeypatch.setattr(migration, "REMOTE_PAGE", 7)
    monkeypatch.setattr(migration, "PAGE", 7)
    monkeypatch.setattr(migration, "DOCUMENTS", 3)
    monkeypatch.setattr("penstock.documents.migration.FORGET_AFTER", timedelta(seconds=0.5))


def text(number: int, chunks: int = 4) -> bytes:
    """A document of so many chunks, of 100 characters each."""
    return "\n\n".join(f"Part {part} of document {number}: " + "water power " * 6 for part in range(chunks)).encode()


async def add(product: Product, *numbers: int, chunks: int = 4, **options: Any) -> list[int]:
    async def pieces(content: bytes) -> AsyncIterator[bytes]:
        yield content

    return [
        (await product.intake.accept(Upload("papers", f"{n}.txt", pieces(text(n, chunks)), **options))).id
        for n in numbers
    ]


@asynccontextmanager
async def filled(
    database_url: DatabaseUrl, home: Path, server: Server, *, documents: int = 10, **settings: Any
) -> AsyncIterator[Product]:
    """A worker, and documents that are ready with the built-in model."""
    async with product_with_worker(database_url, home, models=other(server), **settings) as product:
        await change_collection(product.app, "papers", chunk_size=100, chunk_overlap=0)
        await add(product, *range(documents))
        await until_over(product, documents)
        yield product


async def ask(product: Product, mode: Any = "vectors", k: int = 100) -> Counter[str]:
    """How many passages of each document are found by what the collection is at this moment."""
    now = await find_collection(product.app, "papers")
    query = Query("water power", [CollectionRef(now.id, now.model, now.search_language)], k=k, mode=mode)
    found = await find(product.app.database, product.models, query)
    assert len({(hit.document, hit.chunk) for hit in found.hits}) == len(found.hits), "nothing is found twice"
    return Counter(hit.name for hit in found.hits)


async def until(look: Callable[[], Awaitable[bool]], within: float = 20) -> None:
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110  no event for what is in tables
            await asyncio.sleep(0.02)


async def until_model(product: Product, model: str) -> Collection:
    async def there() -> bool:
        found = await find_collection(product.app, "papers")
        assert not found.is_stuck, found.trouble
        return found.model == model and found.next_model is None

    await until(there)
    return await find_collection(product.app, "papers")


async def until_forgotten(product: Product, model: str) -> None:
    async def gone() -> bool:
        return not sum([await count(product, f"vectors_{model}"), await count(product, f"folded_vectors_{model}")])

    await until(gone)


async def count(product: Product, table: str) -> int:
    [row] = await rows(product, f"select count(*) as n from penstock.{table}")
    return int(row["n"])


async def faults(product: Product, model: str) -> list[Any]:
    """Live versions whose chunks have not exactly one vector each."""
    return await rows(
        product,
        "select document.name, chunk.ordinal, count(vector.ordinal) from penstock.documents as document "
        "join penstock.chunks as chunk on chunk.version_id = document.live_id "
        f"left join (select version_id, ordinal from penstock.vectors_{model} union all "
        f"select version_id, ordinal from penstock.folded_vectors_{model}) as vector "
        "on vector.version_id = chunk.version_id and vector.ordinal = chunk.ordinal "
        "group by 1, 2 having count(vector.ordinal) <> 1",
    )


class Questions:
    """Asks all the time, and keeps what was answered."""

    def __init__(self, product: Product, modes: Sequence[str] = ("vectors", "hybrid")) -> None:
        self._product = product
        self._modes = modes
        self.answers: list[Counter[str]] = []
        self.task = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        while True:
            for mode in self._modes:
                self.answers.append(await ask(self._product, mode))

    async def end(self) -> list[Counter[str]]:
        failed = self.task.done()
        self.task.cancel()
        await asyncio.wait([self.task])
        if failed:
            self.task.result()
        assert len(self.answers) > 3
        return self.answers


async def test_the_model_changes_without_a_gap(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, filled(database_url, tmp_path, server) as product:
        before = await ask(product)
        assert sum(before.values()) == 40
        questions = Questions(product)
        await change_collection(product.app, "papers", model="other")
        await until_model(product, "other")
        await until_forgotten(product, "static")
        assert all(answer == before for answer in await questions.end())
        assert await faults(product, "other") == []
        assert [await count(product, table) for table in TABLES] == [0, 0, 40, 0]

        await change_collection(product.app, "papers", model="static")
        await until_model(product, "static")
        await until_forgotten(product, "other")
        assert await ask(product) == before
        assert await faults(product, "static") == []


async def test_documents_come_change_and_go_meanwhile(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, filled(database_url, tmp_path, server) as product:
        going = asyncio.Event()

        async def slowly(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            going.set()
            await asyncio.sleep(0.01)
            return await server.well(request, body)

        server.reply = slowly
        questions = Questions(product)
        await change_collection(product.app, "papers", model="other")
        await going.wait()
        [first] = await rows(product, "select id from penstock.documents where name = '9.txt'")
        await delete_document(product.app, first["id"])
        await add(product, 3, 4, chunks=6, replace=True)
        await add(product, 20, 21, 22)
        await until_over(product, 12)
        await until_model(product, "other")
        await until_forgotten(product, "static")
        for answer in await questions.end():
            assert {f"{n}.txt" for n in (0, 1, 2, 5, 6, 7, 8)} <= answer.keys()
            assert all(answer[f"{n}.txt"] in (4, 6) for n in (3, 4)), "one version or the other"
        expected = {f"{n}.txt": 4 for n in (0, 1, 2, 5, 6, 7, 8, 20, 21, 22)} | {"3.txt": 6, "4.txt": 6}
        assert await ask(product) == expected
        assert await faults(product, "other") == []


async def test_a_large_collection_gets_its_index_first(database_url: DatabaseUrl, tmp_path: Path) -> None:
    def index(model: str, collection: int) -> str:
        return f"select indisvalid from pg_index where indexrelid = to_regclass('penstock.folded_vectors_{model}_{collection}')"

    async with serve() as server, filled(database_url, tmp_path, server, search={"exact_up_to": 20}) as product:
        found = await find_collection(product.app, "papers")
        from penstock.search import compact

        await compact(product.app.database, found.id, "static")
        assert await rows(product, index("static", found.id))
        questions = Questions(product)
        await change_collection(product.app, "papers", model="other")
        await until_model(product, "other")
        assert [row["indisvalid"] for row in await rows(product, index("other", found.id))] == [True]
        await until_forgotten(product, "static")
        assert await rows(product, index("static", found.id)) == []
        assert {sum(answer.values()) for answer in await questions.end()} == {40}
        assert await faults(product, "other") == []


async def test_a_wrong_dimension_ends_it_and_the_old_model_goes_on(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, filled(database_url, tmp_path, server) as product:
        server.gives(lambda body: {"data": [{"index": n, "embedding": [1.0] * 4} for n in range(len(body["input"]))]})
        chosen = await change_collection(product.app, "papers", model="other")
        assert chosen.next_job is not None

        async def stuck() -> bool:
            return (await find_collection(product.app, "papers")).is_stuck

        await until(stuck)
        found = await find_collection(product.app, "papers")
        assert (found.model, found.next_model) == ("static", "other")
        assert "dimensions" in str(found.trouble)
        assert "dimensions" in (await product.app.why(chosen.next_job)).sentence
        assert sum((await ask(product)).values()) == 40

        await add(product, 30)
        await until_over(product, 11)
        assert (await ask(product))["30.txt"] == 4, "documents become ready by the model that works"

        server.reply = server.well
        redriven = await product.app.redrive(chosen.next_job, force=True)
        assert redriven.done == 1
        await until_model(product, "other")
        assert await faults(product, "other") == []
        assert sum((await ask(product)).values()) == 44


async def test_an_endpoint_that_dies_in_the_middle_is_waited_for(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, filled(database_url, tmp_path, server) as product:
        asked = 0

        async def three_times(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            nonlocal asked
            asked += len(body["input"])
            if asked <= 21:
                return await server.well(request, body)
            server.reply = server.well
            return web.Response(status=503)

        server.reply = three_times
        await change_collection(product.app, "papers", model="other")
        await until_model(product, "other")
        sent = sum(len(body["input"]) for body in server.asked)
        assert 40 < sent <= 40 + 2 * 7, "what was written before was not asked for again"
        assert await faults(product, "other") == []


async def test_it_is_left_in_the_middle(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, filled(database_url, tmp_path, server) as product:
        held = asyncio.Event()
        going = asyncio.Event()

        async def hold(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            if len(server.asked) > 2:
                going.set()
                await held.wait()
            return await server.well(request, body)

        server.reply = hold
        await change_collection(product.app, "papers", model="other")
        await going.wait()
        left = await change_collection(product.app, "papers", model="static")
        assert (left.model, left.next_model) == ("static", None)
        held.set()
        await until_forgotten(product, "other")

        async def quiet() -> bool:
            return not await rows(
                product,
                "select from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane "
                "where kind in ('reembed_collection', 'forget_vectors')",
            )

        await until(quiet)
        assert [await count(product, table) for table in TABLES] == [40, 0, 0, 0]
        assert sum((await ask(product)).values()) == 40
