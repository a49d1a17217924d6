"""The product with a worker in this process, and waiting for its documents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.documents import Document, Upload, create_collection, list_documents, show_document
from penstock.product import Product
from penstock.settings import DatabaseUrl


@asynccontextmanager
async def running_worker(product: Product, drain: str = "1s") -> AsyncIterator[None]:
    """A worker in this process until the block ends."""
    stop = asyncio.Event()
    work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain=drain))
    try:
        yield
    finally:
        stop.set()
        await work


@asynccontextmanager
async def product_with_worker(database_url: DatabaseUrl, home: Path, **settings: Any) -> AsyncIterator[Product]:
    """The product with a worker, and a collection `papers`."""
    async with Product(database_url=database_url, home=home, pool={"size": 4}, **settings) as product:
        await create_collection(product.app, "papers")
        async with running_worker(product):
            yield product


async def prepare(product: Product, name: str, content: bytes, **options: Any) -> Document:
    """Put it in, and wait for its end."""

    async def pieces() -> AsyncIterator[bytes]:
        yield content

    accepted = await product.intake.accept(Upload("papers", name, pieces(), len(content), **options))
    await until_over(product, 1)
    return await show_document(product.app, accepted.id)


async def until_over(product: Product, least: int) -> list[Document]:
    """Wait until there are so many documents, none of them under way."""
    async with asyncio.timeout(60):
        while True:
            found = await list_documents(product.app, collection="papers")
            if len(found) >= least and all(each.is_over for each in found):
                return found
            await asyncio.sleep(0.05)


async def rows(product: Product, query: str, *arguments: Any) -> list[Any]:
    async with product.app.database.pool.session() as session:
        found: list[Any] = await session.fetch(query, *arguments)
        return found
