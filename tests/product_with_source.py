"""The product with a source of messages and a worker in this process."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.documents import SourceMessage, list_documents, read_text
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.product_with_worker import rows, running_worker

SOURCE = {"type": "webhook", "secret": "s", "collection": "papers"}


@asynccontextmanager
async def product_with_source(
    database_url: DatabaseUrl, home: Path, fetch: dict[str, Any] | None = None, **source: Any
) -> AsyncIterator[Product]:
    """The product with a worker and a source `orders`."""
    settings: dict[str, Any] = {"pool": {"size": 4}, "fetch": fetch or {}, "sources": {"orders": SOURCE | source}}
    async with Product(database_url=database_url, home=home, **settings) as product, running_worker(product):
        yield product


def order(number: str, text: str = "The sluice gate was repaired.", **more: Any) -> SourceMessage:
    content = base64.b64encode(text.encode()).decode()
    return SourceMessage(number, {"name": f"{number}.txt", "content": content, **more})


async def until_settled(product: Product) -> list[Any]:
    """All messages, when none of them waits and none of their documents is under way."""
    async with asyncio.timeout(60):
        while True:
            found = await rows(product, "select * from penstock.inbox order by message_id")
            documents = await list_documents(product.app)
            if all(row["state"] != "waiting" for row in found) and all(each.is_over for each in documents):
                return found
            await asyncio.sleep(0.05)


async def text_of(product: Product, document: int) -> str:
    return "".join([piece async for piece in read_text(product.app, document)]).strip()
