"""Versions that are gone have no rows left, in any table that has rows of versions.

A version is gone when it has no row, or was cleared. That never changes back, and its rows go before it or with it: rows that
are found after that are left over. Versions are found by skipping from one to the next in an index, however many rows each
has. The repair removes the version from all tables, in batches.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from penstock.database import Database, Session, Statement, statements
from penstock.documents.integrity.finding import Cursor, IntegrityFinding, Repair, cut_page
from penstock.search.bm25 import BUCKETS, remove_postings, take_turn

sql = statements(__file__)

PAGE = 500
ROWS = 5000  # of the postings' tail, some dozen for each batch
BATCH = 2000  # rows that are removed in one transaction
TABLE = re.compile(r"(folded_)?vectors_[a-z0-9][a-z0-9_-]{0,40}|hidden_versions|indexed_batches|chunks|pages")

NAMES = {"hidden_versions": "hidden", "indexed_batches": "batches"}
WORDS = {"hidden_versions": "a mark that hides it", "indexed_batches": "batches of postings"}


class _Gone(ABC):
    """What the checks of all tables have in common: a version that is gone has no rows."""

    name: str
    _what: str  # the rows, for people

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        rows = await self._database.pool.repeat(sql.gone_versions, versions=sorted(set(subjects)))
        gone = {row["version_id"]: row for row in rows}
        if not gone:
            return []
        left = await self._with_rows(list(gone))
        return [
            IntegrityFinding(
                version,
                f"Version {version} is gone, and has {self._what} left.",
                "penstock schedules run check-documents",
                gone[version]["document_id"],
                gone[version]["tenant"],
            )
            for version in sorted(left)
        ]

    @abstractmethod
    async def _with_rows(self, versions: list[int]) -> set[int]:
        """Those of these versions that still have rows."""

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        removed = await remove_version(self._database, found.subject)
        return Repair(f"{removed:,} rows were removed.")


class LeftoverRows(_Gone):
    """Nothing is left of versions that are gone, in a table that is sorted by version."""

    def __init__(self, database: Database, table: str) -> None:
        super().__init__(database)
        self.name = f"left-{NAMES.get(table, table)}"
        self._table = table
        self._what = WORDS.get(table, table)

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        step = about("next_versions", self._table)
        rows = await self._database.pool.repeat(step, after=after[0] if after else 0, most=PAGE)
        return cut_page(rows, PAGE, subject="version_id")

    async def _with_rows(self, versions: list[int]) -> set[int]:
        rows = await self._database.pool.repeat(about("with_rows", self._table), versions=versions)
        return {row["version_id"] for row in rows}


class LeftoverPostings(_Gone):
    """Nothing is left of them in the tail of the postings."""

    name = "left-postings"
    _what = "postings"

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        collection, bucket, version, first = after or (0, 0, 0, 0)
        rows = await self._database.pool.repeat(
            sql.next_postings, collection=collection, bucket=bucket, version=version, first=first, most=ROWS
        )
        subjects = sorted({row["version_id"] for row in rows})
        return subjects, list(rows[-1].values()) if len(rows) == ROWS else None

    async def _with_rows(self, versions: list[int]) -> set[int]:
        rows = await self._database.pool.repeat(sql.with_postings, versions=versions, buckets=BUCKETS)
        return {row["version_id"] for row in rows}


class LeftoverVectors(_Gone):
    """Nothing is left of them in the vectors of any model."""

    name = "left-vectors"
    _what = "vectors"

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        tables = await self._database.pool.repeat(vector_tables)
        table, collection, version = after or ("", 0, 0)
        for place, name in enumerate(tables):
            if name < table:
                continue
            if name > table:
                collection = version = 0
            rows = await self._database.pool.repeat(
                about("next_pairs", name), collection=collection, version=version, most=PAGE
            )
            subjects = [row["version_id"] for row in rows]
            if len(rows) == PAGE:
                return subjects, [name, rows[-1]["collection_id"], rows[-1]["version_id"]]
            if place + 1 < len(tables):
                return subjects, [tables[place + 1], 0, 0]
            return subjects, None
        return [], None

    async def _with_rows(self, versions: list[int]) -> set[int]:
        found: set[int] = set()
        for table in await self._database.pool.repeat(vector_tables):
            rows = await self._database.pool.repeat(about("with_vectors", table), versions=versions)
            found |= {row["version_id"] for row in rows}
        return found


async def vector_tables(session: Session) -> list[str]:
    """Those of all models, the tails and the folded ones, in the order of their names."""
    return sorted(name for row in await sql.vector_tables(session) if TABLE.fullmatch(name := row["relname"]))


def about(name: str, table: str) -> Statement:
    """A statement of leftovers.sql about this table; its name is one that we have made."""
    if not TABLE.fullmatch(table):
        raise ValueError(f"{table!r} has no rows of versions")
    statement: Statement = getattr(sql, name)
    return statement.named(table_of_versions=table)


async def remove_version(database: Database, version: int) -> int:
    """Remove all that is left of a version that is gone, in batches; how many rows. Hidden first, shown never."""
    tables = await database.pool.repeat(vector_tables)
    collections = {row["collection_id"] for row in await database.pool.repeat(sql.collections_of, version=version)}
    for table in tables:
        rows = await database.pool.repeat(about("collections_with", table), version=version)
        collections |= {row["collection_id"] for row in rows}
    rows = await database.pool.repeat(sql.collections_with_postings, version=version, buckets=BUCKETS)
    collections |= {row["collection_id"] for row in rows}
    total = 0
    for collection in sorted(collections):
        await database.pool.repeat(sql.hide.run, version=version, collection=collection)
        while batch := await _remove_batch(database, version, collection, tables):
            total += batch
    while True:
        async with database.pool.transaction() as tx:
            removed = [
                len(await sql.remove_chunks(tx, version=version, most=BATCH)),
                len(await sql.remove_pages(tx, version=version, most=BATCH)),
            ]
            if not sum(removed):
                await sql.forget_hidden.run(tx, version=version)
                return total
        total += sum(removed)


async def _remove_batch(database: Database, version: int, collection: int, tables: Sequence[str]) -> int:
    """With the turn of the collection: a merge could move rows meanwhile."""
    async with database.pool.transaction() as tx:
        await take_turn(tx, collection)
        removed = await remove_postings(tx, version, BATCH)
        removed += len(await sql.remove_tail(tx, version=version, collection=collection, buckets=BUCKETS))
        for table in tables:
            step = about("remove_vectors", table)
            removed += len(await step(tx, version=version, collection=collection, most=BATCH))
        return removed
