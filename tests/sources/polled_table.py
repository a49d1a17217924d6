"""A source of the type `table` that is polled by hand, and what the inbox then has."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.documents import Overtaken
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import SourceContext
from penstock.sources.table import TableSource, open_source

NAME = "orders"


class Reading:
    """One process with a source; no worker takes what it brings."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.source = self.another()

    def another(self) -> TableSource:
        """A second one like it, as in another process."""
        product = self.product
        context = SourceContext(NAME, product.settings.sources[NAME], product.settings, product.inbox, product.store)
        return open_source(context)

    async def poll(self) -> None:
        """Until there is nothing more at once."""
        more = True
        while more:
            try:
                more = await self.source.poll()
            except Overtaken:
                more = True

    async def until_swept(self) -> None:
        """Ten minutes later: until a sweep has come to its end."""
        await self.run("update penstock.test_clock set shift = shift + interval '10 minutes 1 second'")
        before = (await self.product.inbox.position(NAME)).swept_at
        while (await self.product.inbox.position(NAME)).swept_at == before:
            await self.poll()

    async def run(self, query: str, *arguments: Any) -> list[Any]:
        async with self.product.app.database.pool.session() as session:
            rows: list[Any] = await session.fetch(query, *arguments)
            return rows

    async def ids(self) -> list[str]:
        """The messages, in the order in which they came."""
        rows = await self.run("select message_id from penstock.inbox where source = $1 order by id", NAME)
        return [row["message_id"] for row in rows]

    async def payloads(self) -> dict[str, Any]:
        rows = await self.run("select message_id, payload from penstock.inbox where source = $1", NAME)
        return {row["message_id"]: json.loads(row["payload"]) for row in rows}

    async def counted(self) -> tuple[int, int]:
        """New messages and repeats, as `penstock sources list` shows them."""
        [row] = await self.run("select received, repeats from penstock.sources where name = $1", NAME)
        return row["received"], row["repeats"]


@asynccontextmanager
async def reading(database_url: DatabaseUrl, home: Path, **source: Any) -> AsyncIterator[Reading]:
    """With a table `orders` in the test's own database, unless another `url` is given."""
    usual = {"type": "table", "url": database_url.reveal(), "table": NAME, "id": "id", "tenant": "default"}
    product = Product(database_url=database_url, home=home, pool={"size": 4}, sources={NAME: usual | source})
    async with product:
        made = Reading(product)
        try:
            yield made
        finally:
            await made.source.close()
