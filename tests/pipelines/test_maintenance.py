"""The job that checks documents, with a worker beside it: what is under way is no finding, and what is broken is mended."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from pathlib import Path

from penstock.documents import Upload, delete_document, show_document
from penstock.documents.integrity import check_documents
from penstock.product import Product
from penstock.search import compact
from penstock.settings import DatabaseUrl
from tests.product_with_worker import prepare, product_with_worker, rows, until_over
from tests.sample_documents import story

LOOKS = 8  # while things change
DAMAGE = "delete from penstock.chunks where version_id = $1 and ordinal = 0"
CHECKED = """
select result from penstock.job_history join penstock.lanes as lane on lane.id = lane
where kind = 'check_documents' and outcome = 'done'
"""


async def check(product: Product) -> None:
    """By its schedule's job, in the worker."""
    before = len(await rows(product, CHECKED))
    await product.app.enqueue(product.app.kinds["check_documents"]())
    async with asyncio.timeout(30):
        while len(await rows(product, CHECKED)) == before:  # noqa: ASYNC110  no event for SQL
            await asyncio.sleep(0.05)


async def test_a_damaged_document_is_mended_by_the_job(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        made = await prepare(product, "a.txt", story(300))
        await check(product)
        assert await rows(product, "select * from penstock.findings") == []
        await rows(product, DAMAGE, made.live_id)
        await check(product)
        await until_over(product, 1)
        shown = await show_document(product.app, made.id)
        assert (shown.status, shown.version, shown.live_version) == ("ready", 2, 2)
        await check(product)
        [finding] = await rows(product, "select * from penstock.findings")
        assert finding["ended_at"] is not None


async def test_what_is_under_way_is_no_finding(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """Documents come, change and go, and vectors are folded, while the checks look at all of it again and again."""
    chance = random.Random(7)
    over = asyncio.Event()
    looks = 0

    async with product_with_worker(database_url, tmp_path, search={"exact_up_to": 10}) as product:

        async def change(turn: int) -> None:
            for step in itertools.count():
                if looks >= LOOKS:
                    return
                name = f"{chance.randrange(6)}.txt"
                content = story(40 + chance.randrange(200), turn * 100 + step)

                async def pieces(content: bytes = content) -> AsyncIterator[bytes]:
                    yield content

                accepted = await product.intake.accept(Upload("papers", name, pieces(), len(content), replace=True))
                if chance.random() < 0.4:
                    await asyncio.sleep(chance.random() / 5)
                    await delete_document(product.app, accepted.id, now=True)

        async def look() -> None:
            nonlocal looks
            while not over.is_set():
                done = await check_documents(product.app, product.store)
                assert not [name for name, looked in done.items() if looked["found"]], done
                looks += 1

        async def tidy() -> None:
            while not over.is_set():
                await compact(product.app.database, 1, "static")
                await product.app.enqueue(product.app.kinds["tidy_documents"](), unique="tidy")
                await asyncio.sleep(0.1)

        async def work() -> None:
            try:
                await asyncio.gather(*(change(turn) for turn in range(3)))
                await until_over(product, 1)
            finally:
                over.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            group.create_task(look())
            group.create_task(tidy())
        await look_once_more(product)
    assert looks >= LOOKS


async def look_once_more(product: Product) -> None:
    await check_documents(product.app, product.store)
    found = await rows(product, "select check_name, sentence from penstock.findings where check_name <> 'orphans'")
    assert found == []
