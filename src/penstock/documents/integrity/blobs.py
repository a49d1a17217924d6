"""The bytes of documents are in the blob store, all of them. What is missing cannot be repaired: each document is reported.

The store is asked without a connection, and the row is read again after that: a blob that is being collected is not a finding,
because its row is given up before its file goes. Files without a row belong to the garbage collector.
"""

import asyncio
import shlex
from collections.abc import Sequence

from asyncpg import Record

from penstock.blobs import BlobStore
from penstock.database import Database, statements
from penstock.documents.integrity.finding import Cursor, IntegrityFinding, Repair, cut_page
from penstock.errors import NotFound

sql = statements(__file__)

PAGE = 500
AT_ONCE = 16  # questions to the store
USERS = 100  # documents that are reported for the same bytes


class BlobCheck:
    """Every row has its bytes."""

    name = "blobs"

    def __init__(self, database: Database, store: BlobStore) -> None:
        self._database = database
        self._store = store

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(sql.page, after=after[0] if after else 0, most=PAGE)
        return cut_page(rows, PAGE)

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        rows = await self._database.pool.repeat(sql.kept, blobs=list(subjects))
        turn = asyncio.Semaphore(AT_ONCE)

        async def ask(row: Record) -> str:
            async with turn:
                return await self._ask(row["key"], row["size"])

        try:
            async with asyncio.TaskGroup() as group:
                asked = {row["id"]: group.create_task(ask(row)) for row in rows}
        except ExceptionGroup as troubles:  # a store that is away says the same to all
            raise troubles.exceptions[0] from None
        wrong = {blob: task.result() for blob, task in asked.items() if task.result()}
        if not wrong:
            return []
        users = await self._database.pool.repeat(sql.users, blobs=list(wrong), most=USERS)
        return [_tell(row, wrong[row["blob_id"]]) for row in users]

    async def _ask(self, key: str, size: int) -> str:
        """Check the size, by reading the last byte and the one after it."""
        start = max(size - 1, 0)
        try:
            found = sum([len(piece) async for piece in self._store.read(key, start, size + 1)])
        except NotFound:
            return "are not in the blob store"
        if found != size - start:
            return (
                f"are {'fewer' if found < size - start else 'more'} in the blob store than the {size:,} that were kept"
            )
        return ""

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        return None


def _tell(row: Record, wrong: str) -> IntegrityFinding:
    shared = f" {row['documents'] - 1:,} more documents have the same bytes." if row["documents"] > 1 else ""
    return IntegrityFinding(
        row["blob_id"],
        f"The bytes of document {row['document']} ({row['collection']}/{row['name']}) {wrong}: put the file {row['key']} back "
        f"from a backup, or add the same file again with --replace.{shared}",
        shlex.join(["penstock", "add", row["name"], "--replace", "--collection", row["collection"]]),
        row["document"],
        row["tenant"],
    )
