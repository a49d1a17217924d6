"""The product with a worker in this process, a collection `papers`, and a model that reads by rules."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import (
    Collection,
    Document,
    Upload,
    ensure_collection,
    find_collection,
    show_document,
)
from penstock.knowledge.facts.facts import FoundFacts, Question, ShownFact, find_facts, list_facts
from penstock.knowledge.facts.runs import ExtractionStatus, show_status
from penstock.operations import verify
from penstock.product import Product
from penstock.search import CollectionRef
from penstock.settings import DatabaseUrl
from tests.knowledge.facts_model import reads
from tests.models.chat import Chat, chatting


class FactsReading:
    """Documents, and what was read in them."""

    def __init__(self, product: Product, chat: Chat) -> None:
        self.product = product
        self.chat = chat

    async def rows(self, query: str, *arguments: Any) -> list[Any]:
        found: list[Any] = await self.product.app.database.pool.repeat(lambda session: session.fetch(query, *arguments))
        return found

    async def count(self, table: str) -> int:
        return int((await self.rows(f"select count(*) as count from penstock.{table}"))[0]["count"])

    async def add(self, name: str, text: str, *, replace: bool = False) -> Document:
        """Put it in, and wait until it is ready."""

        async def pieces() -> AsyncIterator[bytes]:
            yield text.encode()

        accepted = await self.product.intake.accept(Upload("papers", name, pieces(), replace=replace))
        async with asyncio.timeout(30):
            while not (shown := await show_document(self.product.app, accepted.id)).is_over:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert shown.status == "ready", shown.error
        return shown

    async def collection(self) -> Collection:
        return await find_collection(self.product.app, "papers")

    async def extract(self, **options: Any) -> list[Any]:
        """Have all read that was not; what the jobs have returned."""
        jobs = await self.product.facts.ask(await self.collection(), **options)
        return [await self.product.app.result(job, timeout="30s") for job in jobs]

    async def facts(self, document: int) -> list[ShownFact]:
        return await self.product.app.database.pool.repeat(list_facts, document, most=1000)

    async def status(self) -> ExtractionStatus:
        collection, digest = await self.collection(), self.product.facts.config.digest
        return await self.product.app.database.pool.repeat(show_status, collection, digest)

    async def find(self, question: str, **options: Any) -> FoundFacts:
        one = await self.collection()
        asked = Question(question, [CollectionRef(one.id, one.model, one.search_language)], **options)
        return await find_facts(self.product.app.database, self.product.models, asked)

    async def tidy(self) -> dict[str, int]:
        job = await self.product.app.enqueue(self.product.app.kinds["tidy_facts"](), fairness_key="_system")
        done: dict[str, int] = await self.product.app.result(job, timeout="20s")
        return done

    async def violations(self) -> list[str]:
        return [each for verdict in await verify(self.product.app.database) for each in verdict.shown]


@asynccontextmanager
async def studying(url: DatabaseUrl, home: Path, chat: Chat | None, **settings: Any) -> AsyncIterator[FactsReading]:
    llms = {"main": {"url": chat.url, "model": "gpt-tiny", "price_in": 1.0, "timeout": "5s"}} if chat else {}
    product = Product(database_url=url, home=home, pool={"size": 4}, **({"llms": llms} | settings))
    stop = asyncio.Event()
    async with product:
        await ensure_collection(product.app, "papers")
        work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="1s"))
        try:
            yield FactsReading(product, chat or Chat())
        finally:
            stop.set()
            await work


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with chatting() as known:
        known.usual = reads
        yield known


@pytest.fixture
async def study(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> AsyncIterator[FactsReading]:
    async with studying(database_url, tmp_path, chat) as made:
        yield made
        assert await made.violations() == []
