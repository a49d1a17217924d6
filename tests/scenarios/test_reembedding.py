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
from penstock.product import Product
from penstock.search import CollectionRef, Query, find
from penstock.settings import DatabaseUrl
from tests.models.endpoint import serve
from tests.product_with_worker import running_worker
from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

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
async def product_processes(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[ProductProcesses]:
    """With a second model behind an address, for all processes."""
    connection = await asyncpg.connect(database_url.reveal())
    async with serve() as server:
        model = {"url": f"http://127.0.0.1:{server.port}/v1", "model": "bge", "dimensions": 3}
        async with Product(
            database_url=database_url, home=tmp_path, pool={"size": 4}, models={"other": model}
        ) as product:
            await create_collection(product.app, "papers", chunk_size=500)
            made = ProductProcesses(product, connection, database_url)
            made._environ |= {f"PENSTOCK_MODELS__OTHER__{key.upper()}": str(value) for key, value in model.items()}
            try:
                yield made
            finally:
                await made.close()
    await connection.close()


async def ask(product_processes: ProductProcesses) -> int:
    product = product_processes.product
    now = await find_collection(product.app, "papers")
    query = Query("turbine", [CollectionRef(now.id, now.model, now.search_language)], k=90, mode="vectors")
    return len((await find(product.app.database, product.models, query)).hits)


@asynccontextmanager
async def asked_always(product_processes: ProductProcesses) -> AsyncIterator[list[int]]:
    """How many passages each question has found so far; at the end, all have found as many."""
    sizes: list[int] = []

    async def ask_on() -> None:
        while True:
            sizes.append(await ask(product_processes))
            await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask_on())
    try:
        yield sizes
        assert not asking.done(), asking.exception()
    finally:
        asking.cancel()
        await asyncio.wait([asking])
    assert set(sizes) == {90}


async def forget_the_other(product_processes: ProductProcesses, model: str, sizes: list[int]) -> None:
    """What a job does a minute after the switch, when no question has the old name in its hands any more."""
    asked = len(sizes)
    async with asyncio.timeout(10):
        while len(sizes) < asked + 2:  # noqa: ASYNC110  the questions go on
            await asyncio.sleep(0.01)
    await product_processes.connection.execute(
        f"delete from penstock.vectors_{'static' if model == 'other' else 'other'}"
    )


async def until_model(product_processes: ProductProcesses, model: str) -> None:
    await product_processes.until(
        "select model = $1 and next_model is null from penstock.collections where name = 'papers'", model, within=60
    )


async def fill(product_processes: ProductProcesses) -> None:
    await product_processes.add(FILES)
    async with running_worker(product_processes.product):
        await product_processes.until_over()


async def test_killed_in_every_part_it_goes_on(product_processes: ProductProcesses) -> None:
    await fill(product_processes)
    model = "static"
    async with asked_always(product_processes) as sizes:
        for place in PLACES:
            model = "static" if model == "other" else "other"
            point, _, passage = place.partition("@")
            await change_collection(product_processes.product.app, "papers", model=model)
            victim = await product_processes.start_worker(
                ready=False, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage}"
            )
            try:
                code = await victim.end(30)
            except TimeoutError:
                raise AssertionError(f"{place} was not reached:\n{victim.logged}") from None
            assert code == -signal.SIGKILL, (place, victim.logged)
            async with running_worker(product_processes.product):
                await until_model(product_processes, model)
            assert await product_processes.connection.fetch(FAULTS.format(model)) == [], place
            await forget_the_other(product_processes, model, sizes)


async def test_killed_at_random_it_goes_on(product_processes: ProductProcesses) -> None:
    rng = random.Random(6)
    await fill(product_processes)
    async with asked_always(product_processes):
        await change_collection(product_processes.product.app, "papers", model="other")
        for _ in range(3):
            victim = await product_processes.start_worker()
            await asyncio.sleep(rng.uniform(0, 0.3))
            victim.kill()
            await victim.end()
        async with running_worker(product_processes.product):
            await until_model(product_processes, "other")
        assert await product_processes.connection.fetch(FAULTS.format("other")) == []
