"""Bulk removal: takes many versions of a collection out of the index, in short batches.

    removal = BulkRemoval(database, collection, versions, fence)
    await removal.remove()                    # vectors of all models, postings, chunks
    async with database.pool.transaction() as tx:
        await removal.forget(tx)              # then the index has no trace of them

Many together, because a long row of postings is written once for all of them. The deltas go first: what is not in a delta
cannot be moved any more (bm25/postings.py). All of it can be stopped anywhere and begun again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from penstock.database import Database, Session, Statement, statements
from penstock.errors import WrongState
from penstock.search.bm25.postings import BUCKETS, only, replace_compacted, take_turn, unpack, versions_of
from penstock.search.vectors import VectorTable, made_models

sql = statements(__file__)

BATCH = 2_000  # rows that are removed in one transaction
SLICE = 1_000  # terms whose long rows are found in one statement
BYTES = 4 * 2**20  # of long rows that are written in one transaction
PARTS = 1_000  # of those, at most
REST = 2.0  # seconds between two batches, at most
REST_TIMES = 4  # as long as the batch took: most questions meet none of them, and find the cache as they left it

Fence = Callable[[Session, str], Awaitable[None]]
Part = tuple[str, int]  # a term's long row


@dataclass(frozen=True)
class BulkRemoval:
    """Versions of one collection that were removed for good. `fence` begins each transaction, and gets the name of the step."""

    database: Database
    collection: int
    versions: Sequence[int]
    fence: Fence
    rest: float = REST

    async def remove(self) -> None:
        """Remove everything but the rows by which a removal is continued."""
        models = await self.database.pool.repeat(made_models)
        for model in models:
            for statement in VectorTable(model).both(sql.remove_vectors):
                await self._repeat("vectors", statement)
        await self._repeat("postings", sql.remove_delta, buckets=BUCKETS)
        while await self._remove_compacted():  # until a whole pass finds nothing
            pass
        await self._repeat("chunks", sql.remove_chunks)

    async def forget(self, tx: Session) -> None:
        """Remove the last rows, in the caller's transaction."""
        await sql.forget_versions.run(tx, versions=self.versions)

    @asynccontextmanager
    async def _transaction(self, step: str) -> AsyncIterator[Session]:
        began = time.monotonic()
        async with self.database.pool.transaction() as tx:
            await self.fence(tx, step)
            if live := await sql.live_one.value(tx, versions=self.versions):
                raise WrongState(f"Version {live} is live: its rows cannot be removed.")
            await take_turn(tx, self.collection)
            yield tx
        await self.pause(time.monotonic() - began)

    async def pause(self, took: float) -> None:
        """After a batch: questions come first."""
        await asyncio.sleep(min(REST_TIMES * took, self.rest))

    async def _repeat(self, step: str, statement: Statement, **more: int) -> None:
        batch = BATCH
        values = more | ({"collection": self.collection} if "collection" in statement.parameters else {})
        while batch == BATCH:
            async with self._transaction(step) as tx:
                batch = await statement.value(tx, versions=self.versions, most=BATCH, **values)

    async def _remove_compacted(self) -> int:
        """One pass over all long rows that these versions may be in; how many were changed."""
        changed = 0
        terms = await self.database.pool.repeat(compacted_terms, versions=self.versions)
        for start in range(0, len(terms), SLICE):
            rows = await self.database.pool.repeat(
                sql.compacted_parts,
                collection=self.collection,
                terms=terms[start : start + SLICE],
                versions=self.versions,
            )
            for parts in _in_batches([((row["term"], row["part"]), row["size"]) for row in rows]):
                async with self._transaction("compacted") as tx:
                    changed += await self._shorten(tx, parts)
        return changed

    async def _shorten(self, tx: Session, parts: list[Part]) -> int:
        names, numbers = zip(*parts, strict=True)
        rows = await sql.read_parts(tx, collection=self.collection, terms=list(names), parts=list(numbers))
        shortened = without_versions([row["entries"] for row in rows], self.versions)
        changed = [
            (row["term"], row["part"], left) for row, left in zip(rows, shortened, strict=True) if left is not None
        ]
        await replace_compacted(tx, self.collection, changed)
        return len(changed)


async def compacted_terms(session: Session, versions: Sequence[int]) -> list[str]:
    """The terms of batches that were compacted, or are being."""
    rows = await sql.compacted_terms(session, versions=versions)
    return sorted({term for row in rows for term in row["terms"].split("\n")})


async def count_rows(session: Session, collection: int, versions: Sequence[int]) -> dict[int, dict[str, int]]:
    """Counts of what the index has of each of these versions; versions without any are left out."""
    counts: dict[int, dict[str, int]] = {}

    def add(version: int, what: str, count: int) -> None:
        if count:
            own = counts.setdefault(version, {})
            own[what] = own.get(what, 0) + count

    for row in await sql.count_rows(session, versions=versions):
        for what in ("chunks", "postings", "hidden"):
            add(row["version"], what, row[what])
    for row in await sql.count_delta(session, collection=collection, versions=versions, buckets=BUCKETS):
        add(row["version_id"], "delta", row["count"])
    for model in await made_models(session):
        for row in await VectorTable(model).named(sql.count_vectors)(session, collection=collection, versions=versions):
            add(row["version_id"], "vectors", row["count"])
    return counts


def without_versions(contents: Sequence[bytes], versions: Sequence[int]) -> list[bytes | None]:
    """The rest of each of these lists of entries; None for one that stays as it is. All of them are compared together,
    because a connection waits for it, and thousands of short comparisons took half a second."""
    entries = unpack(b"".join(contents))
    gone = only(entries["key"], versions_of(versions))
    left: list[bytes | None] = []
    start = 0
    for content in contents:
        stop = start + len(content) // entries.itemsize
        here = gone[start:stop]
        left.append(entries[start:stop][~here].tobytes() if here.any() else None)
        start = stop
    return left


def _in_batches(sized: list[tuple[Part, int]]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    total = 0
    for part, size in sized:
        batch.append(part)
        total += size
        if total >= BYTES or len(batch) >= PARTS:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
