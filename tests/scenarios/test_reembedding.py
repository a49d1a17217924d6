"""The worker is killed in every part of a change of the model, and at random: it goes on, and searches never notice."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from penstock.documents import change_collection, create_collection, find_collection
from penstock.pipelines import Product
from penstock.search import CollectionRef, Query, find
from penstock.settings import DatabaseUrl
from tests.models.endpoint import serve
from tests.scenarios.library import Library
from tests.scenarios.made import story

FILES = {f"{number}.txt": story(4_000, number) for number in range(12)}
# By turns to the one behind an address, which has small pages, and back.
PLACES = [
    "step:reembed-embed@2",
    "step:reembed-write@1",
    "step:reembed-written@1",
    "step:reembed-embed@1",
    "step:reembed-write@2",
    "step:reembed-switch@1",
    "step:reembed-switched@1",
    "before-commit@1",
    "after-commit-before-ack@1",
]
FAULTS = (
    "select document.name, chunk.ordinal, count(vector.ordinal) from penstock.documents as document "
    "join penstock.chunks as chunk on chunk.version_id = document.live_id "
    "left join (select version_id, ordinal from penstock.vectors_{0} union all select version_id, ordinal "
    "from penstock.folded_vectors_{0}) as vector on vector.version_id = chunk.version_id and vector.ordinal = chunk.ordinal "
    "group by 1, 2 having count(vector.ordinal) <> 1"
)


@pytest.fixture
async def library(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Library]:
    """With a second model behind an address, for all processes."""
    connection = await asyncpg.connect(database_url.reveal())
    async with serve() as server:
        model = {"url": f"http://127.0.0.1:{server.port}/v1", "model": "bge", "dimensions": 3}
        async with Product(
            database_url=database_url, home=tmp_path, pool={"size": 4}, models={"other": model}
        ) as product:
            await create_collection(product.app, "papers", chunk_size=500)
            made = Library(product, connection, database_url)
            made._environ |= {f"PENSTOCK_MODELS__OTHER__{key.upper()}": str(value) for key, value in model.items()}
            try:
                yield made
            finally:
                await made.close()
    await connection.close()


async def ask(library: Library) -> int:
    product = library.product
    now = await find_collection(product.app, "papers")
    query = Query("turbine", [CollectionRef(now.id, now.model, now.search_language)], k=90, mode="vectors")
    return len((await find(product.app.database, product.models, query)).hits)


@asynccontextmanager
async def asked_always(library: Library) -> AsyncIterator[list[int]]:
    """How many passages each question has found so far; at the end, all have found as many."""
    sizes: list[int] = []

    async def ask_on() -> None:
        while True:
            sizes.append(await ask(library))
            await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask_on())
    try:
        yield sizes
        assert not asking.done(), asking.exception()
    finally:
        asking.cancel()
        await asyncio.wait([asking])
    assert set(sizes) == {90}


@asynccontextmanager
async def at_work(product: Product) -> AsyncIterator[None]:
    """A worker in this process, which takes over from the one that was killed."""
    stop = asyncio.Event()
    working = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="1s"))
    try:
        yield
    finally:
        stop.set()
        await working


async def forget_the_other(library: Library, model: str, sizes: list[int]) -> None:
    """What a job does a minute after the switch, when no question has the old name in its hands any more."""
    asked = len(sizes)
    async with asyncio.timeout(10):
        while len(sizes) < asked + 2:  # noqa: ASYNC110  the questions go on
            await asyncio.sleep(0.01)
    await library.connection.execute(f"delete from penstock.vectors_{'static' if model == 'other' else 'other'}")


async def until_model(library: Library, model: str) -> None:
    await library.until(
        "select model = $1 and next_model is null from penstock.collections where name = 'papers'", model, within=60
    )


async def fill(library: Library) -> None:
    await library.add(FILES)
    async with at_work(library.product):
        await library.until_over()


async def test_killed_in_every_part_it_goes_on(library: Library) -> None:
    await fill(library)
    model = "static"
    async with asked_always(library) as sizes:
        for place in PLACES:
            model = "static" if model == "other" else "other"
            point, _, passage = place.partition("@")
            await change_collection(library.product.app, "papers", model=model)
            victim = await library.hire(ready=False, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage}")
            try:
                code = await victim.end(30)
            except TimeoutError:
                raise AssertionError(f"{place} was not reached:\n{victim.logged}") from None
            assert code == -signal.SIGKILL, (place, victim.logged)
            async with at_work(library.product):
                await until_model(library, model)
            assert await library.connection.fetch(FAULTS.format(model)) == [], place
            await forget_the_other(library, model, sizes)


async def test_killed_at_random_it_goes_on(library: Library) -> None:
    rng = random.Random(6)
    await fill(library)
    async with asked_always(library):
        await change_collection(library.product.app, "papers", model="other")
        for _ in range(3):
            victim = await library.hire()
            await asyncio.sleep(rng.uniform(0, 0.3))
            victim.kill()
            await victim.end()
        async with at_work(library.product):
            await until_model(library, "other")
        assert await library.connection.fetch(FAULTS.format("other")) == []
