"""What a capable engineer writes in an afternoon: read, split, embed, write; one connection, one transaction a document.

It writes the rows that Penstock writes. What it does not have is everything else: no job, no version, no fence, no box, no
retry, no upload. A document that was begun and not finished when it is killed is lost without a trace.
"""

import asyncio
from typing import Any

import asyncpg

from penstock.database import Session
from penstock.models.static import StaticModel
from penstock.search import Index, IndexBatch, Passage

KEEP_PAGE = "insert into penstock.pages (version_id, number, text) values ($1, $2, $3)"


class Loop:
    """One process of it."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._model = StaticModel()
        self._connection: Any = self._loop.run_until_complete(asyncpg.connect(url, connection_class=Session))

    def write(self, number: int, pages: list[Any], chunks: list[Any]) -> int:
        return self._loop.run_until_complete(self._write(number, pages, chunks))

    async def _write(self, number: int, pages: list[Any], chunks: list[Any]) -> int:
        vectors = self._model.embed(
            [f"{chunk.heading}\n{chunk.text}" if chunk.heading else chunk.text for chunk in chunks]
        )
        entry = IndexBatch.of(
            version=number,
            collection=1,
            model="static",
            language="english",
            first=0,
            passages=[Passage(chunk.page, chunk.start, chunk.stop, chunk.heading, chunk.text) for chunk in chunks],
            vectors=vectors,
        )
        async with self._connection.transaction():
            await self._connection.executemany(KEEP_PAGE, [(number, page.number, page.text) for page in pages])
            if chunks:
                await Index().stage(self._connection, entry)
        return len(chunks)
