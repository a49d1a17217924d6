"""Taking many versions of a collection out of the index at once, in bites that are short.

    withdrawal = Withdrawal(database, collection, versions, fence)
    await withdrawal.remove()                 # vectors of all models, postings, chunks
    async with database.pool.transaction() as tx:
        await withdrawal.forget(tx)           # then nobody can tell any more that there was something

Many together, because a long row of postings is written once for all of them. The tails go first: what is not in a tail
cannot move behind our back (postings.py). All of it can be stopped anywhere and begun again. The SQL is in withdrawal.sql.
"""

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from penstock.database import Database, Session, Statement, statements
from penstock.errors import WrongState
from penstock.search.entries import BUCKETS, only, unpack, versions_of
from penstock.search.postings import sql as postings_sql
from penstock.search.postings import take_turn
from penstock.search.vectors import VectorTable, made_models

sql = statements(__file__)

BITE = 2_000  # rows that are removed in one transaction
SLICE = 1_000  # terms whose long rows are looked for in one statement
BYTES = 4 * 2**20  # of long rows that are written in one transaction
PARTS = 1_000  # of those, at most
REST = 2.0  # seconds between two bites, at most
REST_TIMES = 4  # as long as the bite took: most questions meet none of them, and find the cache as they left it

Fence = Callable[[Session, str], Awaitable[None]]
Part = tuple[str, int]  # a term's long row


@dataclass(frozen=True)
class Withdrawal:
    """Versions of one collection that nobody will see again. `fence` begins each transaction, and is told what comes."""

    database: Database
    collection: int
    versions: Sequence[int]
    fence: Fence
    rest: float = REST

    async def remove(self) -> None:
        """Everything but the note that there was something."""
        models = await self.database.pool.repeat(made_models)
        for model in models:
            for place in ("vectors_of", "folded_vectors_of"):  # in the order in which a fold moves them
                await self._repeat("vectors", _about(model, getattr(sql, place)))
        await self._repeat("postings", sql.remove_tail, buckets=BUCKETS)
        while await self._remove_folded():  # until a whole look finds nothing
            pass
        await self._repeat("chunks", sql.remove_chunks)

    async def forget(self, tx: Session) -> None:
        """The end, in the caller's transaction."""
        await sql.forget_versions.run(tx, versions=self.versions)

    @asynccontextmanager
    async def _bite(self, step: str) -> AsyncIterator[Session]:
        began = time.monotonic()
        async with self.database.pool.transaction() as tx:
            await self.fence(tx, step)
            if live := await sql.live_one.value(tx, versions=self.versions):
                raise WrongState(f"Version {live} is the one that search sees: its rows cannot be removed.")
            await take_turn(tx, self.collection)
            yield tx
        await self.pause(time.monotonic() - began)

    async def pause(self, took: float) -> None:
        """After a bite: questions come first."""
        await asyncio.sleep(min(REST_TIMES * took, self.rest))

    async def _repeat(self, step: str, statement: Statement, **more: int) -> None:
        bite = BITE
        values = more | ({"collection": self.collection} if "collection" in statement.parameters else {})
        while bite == BITE:
            async with self._bite(step) as tx:
                bite = await statement.value(tx, versions=self.versions, most=BITE, **values)

    async def _remove_folded(self) -> int:
        """One look at all long rows that these versions may be in; how many had to be changed."""
        changed = 0
        terms = await self.database.pool.repeat(partial(folded_terms, versions=self.versions))
        for start in range(0, len(terms), SLICE):
            look = partial(
                sql.folded_parts, collection=self.collection, terms=terms[start : start + SLICE], versions=self.versions
            )
            rows = await self.database.pool.repeat(look)
            for parts in _in_bites([((row["term"], row["part"]), row["size"]) for row in rows]):
                async with self._bite("folded") as tx:
                    changed += await self._shorten(tx, parts)
        return changed

    async def _shorten(self, tx: Session, parts: list[Part]) -> int:
        names, numbers = zip(*parts, strict=True)
        rows = await sql.read_parts(tx, collection=self.collection, terms=list(names), parts=list(numbers))
        shortened = without_versions([row["entries"] for row in rows], self.versions)
        changed = [
            (row["term"], row["part"], left) for row, left in zip(rows, shortened, strict=True) if left is not None
        ]
        if changed:
            terms, places, contents = zip(*changed, strict=True)
            await postings_sql.replace_folded.run(
                tx, collection=self.collection, terms=list(terms), parts=list(places), contents=list(contents)
            )
        return len(changed)


async def folded_terms(session: Session, versions: Sequence[int]) -> list[str]:
    """The terms of batches that were folded, or are being."""
    rows = await sql.folded_terms(session, versions=versions)
    return sorted({term for row in rows for term in row["terms"].split("\n")})


async def count_rows(session: Session, collection: int, versions: Sequence[int]) -> dict[int, dict[str, int]]:
    """What the index has of each of these versions; those of which it has nothing are left out."""
    counts: dict[int, dict[str, int]] = {}

    def add(version: int, what: str, count: int) -> None:
        if count:
            own = counts.setdefault(version, {})
            own[what] = own.get(what, 0) + count

    for row in await sql.count_rows(session, versions=versions):
        for what in ("chunks", "postings", "hidden"):
            add(row["version"], what, row[what])
    for row in await sql.count_tail(session, collection=collection, versions=versions, buckets=BUCKETS):
        add(row["version_id"], "tail", row["count"])
    for model in await made_models(session):
        for row in await _about(model, sql.count_vectors)(session, collection=collection, versions=versions):
            add(row["version_id"], "vectors", row["count"])
    return counts


def _about(model: str, statement: Statement) -> Statement:
    """The statement with this model's tables in it; a model's name is a checked word."""
    named = copy.copy(statement)
    name = VectorTable(model).model
    named.text = statement.text.replace("folded_model", f'"folded_vectors_{name}"')
    named.text = named.text.replace("vectors_model", f'"vectors_{name}"')
    return named


def without_versions(contents: Sequence[bytes], versions: Sequence[int]) -> list[bytes | None]:
    """What is left of each of these lists of entries; None for one that stays as it is. One look at all of them together:
    a connection waits for it, and thousands of short looks took half a second."""
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


def _in_bites(sized: list[tuple[Part, int]]) -> Iterator[list[Part]]:
    bite: list[Part] = []
    total = 0
    for part, size in sized:
        bite.append(part)
        total += size
        if total >= BYTES or len(bite) >= PARTS:
            yield bite
            bite, total = [], 0
    if bite:
        yield bite
