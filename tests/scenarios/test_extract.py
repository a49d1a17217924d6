"""Facts while things break: workers killed in every part, the model away, the document deleted or replaced meanwhile."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.documents import Upload, create_collection, delete_document, find_collection
from penstock.engine.limits.exchange import close_breaker
from penstock.knowledge.facts.facts import list_facts
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.knowledge.facts_model import reads
from tests.models.chat import Chat, chatting, cut
from tests.product_with_worker import running_worker
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

TEXT = "\n\n".join(
    f"The gate number {number} is {number} m wide. Ada Byron works for the Gate {number % 3} Works."
    for number in range(30)
)
# After each of them another worker goes on. The passages are those of windows, of staged batches, and of the last step.
PLACES = [
    "step:cut@1",
    "mid-checkpoint@1",
    "mid-map@1",
    "step:ask@2",
    "step:keep@2",
    "before-finish@2",
    "after-commit-before-ack@1",
    "before-count-down@2",
    "step:begin@1",
    "step:embed@2",
    "step:stage@2",
    "step:staging@2",
    "step:publish@1",
    "before-commit@7",
]
FACTS = "select statement from penstock.facts as fact join penstock.extractions as extraction on extraction.id = extraction_id "
FACTS += (
    "join penstock.documents as document on live_id = fact.version_id where extraction.state = 'current' order by 1"
)


class Reading(ProductProcesses):
    """With a language model for all processes."""

    chat: Chat

    async def ask(self, **options: Any) -> list[int]:
        return await self.product.facts.ask(await find_collection(self.product.app, "papers"), **options)

    async def until_read(self, jobs: Sequence[int], within: float = 60) -> None:
        await self.until("select not exists (select from penstock.jobs where id = any ($1))", list(jobs), within=within)

    async def statements(self) -> list[str]:
        return [row["statement"] for row in await self.connection.fetch(FACTS)]

    async def tidy(self) -> None:
        job = await self.product.app.enqueue(self.product.app.kinds["tidy_facts"](), fairness_key="_system")
        await self.product.app.result(job, timeout="20s")

    async def orphans(self) -> int:
        """Rows that belong to nothing that can be found, after everything is tidy."""
        found: int = await self.connection.fetchval(
            "select (select count(*) from penstock.extractions where state <> 'current') + (select count(*) from "
            "penstock.entities where not exists (select from penstock.mentions where entity_id = entities.id)) + "
            "(select count(*) from penstock.facts_near_static where id not in (select id from penstock.facts))"
        )
        return found


@pytest.fixture
async def product_processes(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Reading]:
    connection = await asyncpg.connect(database_url.reveal())
    async with chatting() as chat:
        chat.usual = reads
        llm = {"url": chat.url, "model": "gpt-tiny", "timeout": "20s"}
        settings: dict[str, Any] = {"llms": {"main": llm}, "knowledge": {"window": 500}}
        async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}, **settings) as product:
            await create_collection(product.app, "papers")
            made = Reading(product, connection, database_url)
            made.chat = chat
            made._environ |= {f"PENSTOCK_LLMS__MAIN__{key.upper()}": str(value) for key, value in llm.items()}
            made._environ["PENSTOCK_KNOWLEDGE__WINDOW"] = "500"
            try:
                yield made
            finally:
                await made.close()
    await connection.close()


async def fill(product_processes: Reading, text: str = TEXT) -> int:
    numbers = await product_processes.add({"report.txt": text.encode()})
    async with running_worker(product_processes.product):
        await product_processes.until_over()
    return numbers["report.txt"]


@asynccontextmanager
async def read_always(product_processes: Reading, document: int) -> AsyncIterator[list[frozenset[str]]]:
    """What can be found of the document, again and again."""
    seen: list[frozenset[str]] = []

    async def look() -> None:
        while True:
            found = await product_processes.product.app.database.pool.repeat(list_facts, document, most=1000)
            assert len(found) == len({(fact.start, fact.statement) for fact in found}), "something is there twice"
            seen.append(frozenset(fact.statement for fact in found))
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield seen
        assert not looking.done(), looking.exception()
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def test_killed_in_every_part_it_goes_on(product_processes: Reading) -> None:
    """And who looks meanwhile sees all of the old facts or all of the new ones, which are the same."""
    document = await fill(product_processes)
    jobs = await product_processes.ask()
    async with running_worker(product_processes.product):
        await product_processes.until_read(jobs)
    whole = await product_processes.statements()
    assert len(whole) >= 60
    async with read_always(product_processes, document) as seen:
        for place in PLACES:
            point, _, passage = place.partition("@")
            jobs = await product_processes.ask(again=True)
            victim = await product_processes.start_worker(
                ready=False,
                module="tests.scenarios.small_batches_worker",
                PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage}",
            )
            try:
                code = await victim.end(40)
            except TimeoutError:
                raise AssertionError(f"{place} was not reached:\n{victim.logged}") from None
            assert code == -signal.SIGKILL, (place, victim.logged)
            async with running_worker(product_processes.product):
                await product_processes.until_read(jobs)
                await product_processes.tidy()
            assert await product_processes.statements() == whole, place
            assert await product_processes.orphans() == 0, place
    assert set(seen) == {frozenset(whole)}
    assert await product_processes.violations() == []
    dead = "select count(*) from penstock.job_history where failures > 0"
    assert await product_processes.connection.fetchval(dead) == 0, "a lost worker is nobody's fault"


async def test_the_model_is_away_and_comes_back(product_processes: Reading) -> None:
    """Its breaker opens, jobs wait and no try is spent; when it is back, all is read."""
    await fill(product_processes, "\n\n".join(f"{TEXT} It is part {part}." for part in range(8)))  # some 40 windows
    product_processes.chat.usual = cut
    limits = "select opened_at is not null from penstock.limits where name = 'llm-main'"
    jobs = await product_processes.ask()
    async with running_worker(product_processes.product):
        await product_processes.until(limits)
        asked = len(product_processes.chat.asked)
        waiting = await product_processes.connection.fetchval(
            "select job.id from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane "
            "where kind = 'extract_window' and job.state = 'ready' and attempt = 0 order by job.id limit 1"
        )
        explained = await product_processes.product.app.why(waiting)
        assert "waits for llm-main: its breaker has been open since" in explained.sentence
        assert len(product_processes.chat.asked) == asked, "nobody asks while it is open"
        assert await product_processes.statements() == []
        product_processes.chat.usual = reads
        async with product_processes.product.app.database.pool.transaction() as tx:
            await close_breaker(tx, "llm-main")
        await product_processes.until_read(jobs)
        assert len(await product_processes.statements()) >= 60
        await product_processes.tidy()
    assert await product_processes.violations() == []


async def held(product_processes: Reading) -> tuple[asyncio.Event, asyncio.Event]:
    """The model takes the next questions, and answers none of them until it is let."""
    entered, let = asyncio.Event(), asyncio.Event()
    product_processes.chat.entered = entered.set

    async def slowly(request: Any, asked: dict[str, Any]) -> Any:
        await let.wait()
        return await reads(request, asked)

    product_processes.chat.usual = slowly
    return entered, let


async def test_the_document_is_deleted_meanwhile(product_processes: Reading) -> None:
    document = await fill(product_processes)
    entered, let = await held(product_processes)
    jobs = await product_processes.ask()
    async with running_worker(product_processes.product):
        await entered.wait()
        await delete_document(product_processes.product.app, document, now=True)
        let.set()
        await product_processes.until_read(jobs)
        await product_processes.until("select exists (select from penstock.receipts where verified_at is not null)")
        await product_processes.tidy()
    for table in ("facts", "entities", "mentions", "extractions", "extraction_windows", "pages"):
        assert await product_processes.connection.fetchval(f"select count(*) from penstock.{table}") == 0, table
    assert await product_processes.violations() == []


async def test_the_document_is_replaced_meanwhile(product_processes: Reading) -> None:
    document = await fill(product_processes)
    entered, let = await held(product_processes)
    jobs = await product_processes.ask()
    async with running_worker(product_processes.product):
        await entered.wait()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"The gate is 99 m wide now. It was painted in 2024."

        await product_processes.product.intake.accept(Upload("papers", "report.txt", pieces(), replace=True))
        await product_processes.until_over()
        let.set()
        await product_processes.until_read(jobs)
        assert await product_processes.statements() == [], "what was read is of the old version"
        await product_processes.until_read(await product_processes.ask())
        await product_processes.tidy()
    assert await product_processes.statements() == ["It was painted in 2024.", "The gate is 99 m wide now."]
    found = await product_processes.product.app.database.pool.repeat(list_facts, document)
    assert {fact.quote for fact in found} == set(await product_processes.statements())
    assert await product_processes.orphans() == 0
    assert await product_processes.connection.fetchval("select count(*) from penstock.extraction_windows") == 1
    assert await product_processes.violations() == []
