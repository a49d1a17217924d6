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
from penstock.engine.permits import close_breaker
from penstock.knowledge.facts import list_facts
from penstock.pipelines import Product
from penstock.settings import DatabaseUrl
from tests.knowledge.reader import reads
from tests.models.chat import Chat, chatting, cut
from tests.scenarios.library import Library
from tests.scenarios.test_reembedding import at_work

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


class Reading(Library):
    """With a language model for all processes."""

    chat: Chat

    async def ask(self, **options: Any) -> list[int]:
        return await self.product.extracting.ask(await find_collection(self.product.app, "papers"), **options)

    async def until_read(self, jobs: Sequence[int], within: float = 60) -> None:
        await self.until("select not exists (select from penstock.jobs where id = any ($1))", list(jobs), within=within)

    async def statements(self) -> list[str]:
        return [row["statement"] for row in await self.connection.fetch(FACTS)]

    async def tidy(self) -> None:
        job = await self.product.app.enqueue(self.product.app.kinds["tidy_facts"](), share="_system")
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
async def library(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Reading]:
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


async def fill(library: Reading, text: str = TEXT) -> int:
    numbers = await library.add({"report.txt": text.encode()})
    async with at_work(library.product):
        await library.until_over()
    return numbers["report.txt"]


@asynccontextmanager
async def read_always(library: Reading, document: int) -> AsyncIterator[list[frozenset[str]]]:
    """What can be found of the document, again and again."""
    seen: list[frozenset[str]] = []

    async def look() -> None:
        while True:
            found = await library.product.app.database.pool.repeat(
                lambda session: list_facts(session, document, most=1000)
            )
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


async def test_killed_in_every_part_it_goes_on(library: Reading) -> None:
    """And who looks meanwhile sees all of the old facts or all of the new ones, which are the same."""
    document = await fill(library)
    jobs = await library.ask()
    async with at_work(library.product):
        await library.until_read(jobs)
    whole = await library.statements()
    assert len(whole) >= 60
    async with read_always(library, document) as seen:
        for place in PLACES:
            point, _, passage = place.partition("@")
            jobs = await library.ask(again=True)
            victim = await library.hire(
                ready=False,
                module="tests.scenarios.small_batches",
                PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage}",
            )
            try:
                code = await victim.end(40)
            except TimeoutError:
                raise AssertionError(f"{place} was not reached:\n{victim.logged}") from None
            assert code == -signal.SIGKILL, (place, victim.logged)
            async with at_work(library.product):
                await library.until_read(jobs)
                await library.tidy()
            assert await library.statements() == whole, place
            assert await library.orphans() == 0, place
    assert set(seen) == {frozenset(whole)}
    assert await library.violations() == []
    dead = "select count(*) from penstock.job_history where failures > 0"
    assert await library.connection.fetchval(dead) == 0, "a lost worker is nobody's fault"


async def test_the_model_is_away_and_comes_back(library: Reading) -> None:
    """Its breaker opens, jobs wait and no try is spent; when it is back, all is read."""
    await fill(library, "\n\n".join(f"{TEXT} It is part {part}." for part in range(8)))  # some 40 windows
    library.chat.usual = cut
    limits = "select opened_at is not null from penstock.limits where name = 'llm-main'"
    jobs = await library.ask()
    async with at_work(library.product):
        await library.until(limits)
        asked = len(library.chat.asked)
        waiting = await library.connection.fetchval(
            "select job.id from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane "
            "where kind = 'extract_window' and job.state = 'ready' and attempt = 0 order by job.id limit 1"
        )
        explained = await library.product.app.why(waiting)
        assert "waits for llm-main: its breaker is open since" in explained.sentence
        assert len(library.chat.asked) == asked, "nobody asks while it is open"
        assert await library.statements() == []
        library.chat.usual = reads
        async with library.product.app.database.pool.transaction() as tx:
            await close_breaker(tx, "llm-main")
        await library.until_read(jobs)
        assert len(await library.statements()) >= 60
        await library.tidy()
    assert await library.violations() == []


async def held(library: Reading) -> tuple[asyncio.Event, asyncio.Event]:
    """The model takes the next questions, and answers none of them until it is let."""
    entered, let = asyncio.Event(), asyncio.Event()
    library.chat.entered = entered.set

    async def slowly(request: Any, asked: dict[str, Any]) -> Any:
        await let.wait()
        return await reads(request, asked)

    library.chat.usual = slowly
    return entered, let


async def test_the_document_is_deleted_meanwhile(library: Reading) -> None:
    document = await fill(library)
    entered, let = await held(library)
    jobs = await library.ask()
    async with at_work(library.product):
        await entered.wait()
        await delete_document(library.product.app, document)
        let.set()
        await library.until_read(jobs)
        await library.until("select exists (select from penstock.receipts where verified_at is not null)")
        await library.tidy()
    for table in ("facts", "entities", "mentions", "extractions", "extraction_windows", "pages"):
        assert await library.connection.fetchval(f"select count(*) from penstock.{table}") == 0, table
    assert await library.violations() == []


async def test_the_document_is_replaced_meanwhile(library: Reading) -> None:
    document = await fill(library)
    entered, let = await held(library)
    jobs = await library.ask()
    async with at_work(library.product):
        await entered.wait()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"The gate is 99 m wide now. It was painted in 2024."

        await library.product.intake.accept(Upload("papers", "report.txt", pieces(), replace=True))
        await library.until_over()
        let.set()
        await library.until_read(jobs)
        assert await library.statements() == [], "what was read is of the old version"
        await library.until_read(await library.ask())
        await library.tidy()
    assert await library.statements() == ["It was painted in 2024.", "The gate is 99 m wide now."]
    found = await library.product.app.database.pool.repeat(lambda session: list_facts(session, document))
    assert {fact.quote for fact in found} == set(await library.statements())
    assert await library.orphans() == 0
    assert await library.connection.fetchval("select count(*) from penstock.extraction_windows") == 1
    assert await library.violations() == []
