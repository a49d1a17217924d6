"""Receipts: what was removed, when, and that a verification afterwards found nothing.

A receipt is written with the removal of the last rows (purge.py). Then the files are removed; the row of a blob goes when its
file is confirmed to be absent. Every table is counted again by the ids that the receipt has; rows that are found are removed
and counted once more. A process that is killed leaves the receipt unverified, and the next one verifies it again. The long
rows of the postings are the exception: they are read again before the terms that lead to them are removed.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from asyncpg import Record
from pydantic import Field

from penstock.blobs import BlobStore
from penstock.database import Database, Session, statements
from penstock.documents.queries import LARGEST, show_document
from penstock.engine import STEP, Penstock, reach
from penstock.errors import NotFound
from penstock.search import BulkRemoval, count_rows
from penstock.telemetry import log
from penstock.text import utc

sql = statements(__file__)

PAGE = 200  # receipts in one verification
AT_ONCE = 8  # files
TABLES = (
    "chunks",
    "vectors",
    "postings",
    "delta",
    "hidden",
    "versions",
    "pages",
    "checkpoints",
    "results",
    "facts",
    "answers",
    "blobs",
    "files",
    "points",
)
HOW = (
    "each table counted by version, document and job; each key checked in the blob store; long postings read again; vectors "
    "in Qdrant counted there"
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was removed of a document, and how the removal was verified."""

    document: int
    collection: str
    name: str
    parent: int | None
    contents: Annotated[Sequence[Mapping[str, Any]], Field(description="Version, SHA-256 and size of each version.")]
    deleted_by: str
    reason: str
    deleted_at: datetime
    removed_at: datetime
    removed: Annotated[
        Mapping[str, Any],
        Field(description="Counts of what was removed; shared: blobs that stay, because other documents use them."),
    ]
    verified_at: datetime | None
    verified: Annotated[Mapping[str, Any] | None, Field(description="What was counted again afterwards, and how.")]

    def answer(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in facts.items()}


async def show_receipt(app: Penstock, document: int, *, tenant: str = "default") -> Receipt:
    row = await app.database.pool.repeat(sql.show_receipt.first, document=document, tenant=tenant)
    if row is not None:
        return _read(row)
    found = await show_document(app, document, tenant=tenant)
    name = f"Document {document} ({found.name})"
    if found.restorable_until is not None:
        raise NotFound(
            f"{name} is deleted and can be restored until {utc(found.restorable_until)}: its receipt comes with the removal "
            "after that."
        )
    if found.status == "deleted":
        raise NotFound(f"{name} is deleted and not removed yet: its receipt comes with the removal.")
    raise NotFound(f"{name} is {found.status}: only a document that was removed has a receipt.")


async def list_receipts(app: Penstock, *, after: int = 0, most: int = 100, tenant: str = "default") -> list[Receipt]:
    """By the id of the document."""
    if not 0 <= after <= LARGEST:
        return []
    rows = await app.database.pool.repeat(sql.list_receipts, after=after, most=most, tenant=tenant)
    return [_read(row) for row in rows]


async def verify_receipts(database: Database, store: BlobStore) -> int:
    """Remove the files of all receipts that are not verified, then verify them; how many were."""
    verified, after = 0, 0
    while rows := await database.pool.repeat(sql.unverified, after=after, most=PAGE):
        after = rows[-1]["document_id"]
        verified += await _verify(database, store, rows)
    return verified


async def _verify(database: Database, store: BlobStore, rows: list[Record]) -> int:
    """Count twice: rows that the first count finds are removed before the second."""
    found = await _count_left(database, store, rows, first=True)
    again = {document: dict(counts) for document, counts in found.items() if counts}
    if again:
        log.warning("parts of removed documents were left, and are removed again", documents=again)
        await _remove_again(database, [row for row in rows if row["document_id"] in again])
        found = await _count_left(database, store, rows, first=False)
    clean = [row for row in rows if not found[row["document_id"]]]
    if len(clean) < len(rows):
        left = {document: dict(counts) for document, counts in found.items() if counts}
        log.error(
            "parts of removed documents cannot be removed: the removal is retried within a minute", documents=left
        )
    reach(f"{STEP}remove-verify")
    counted = {"counted": dict.fromkeys(TABLES, 0), "how": HOW}
    await database.pool.repeat(
        sql.note_verified.run,
        documents=[row["document_id"] for row in clean],
        verified=[json.dumps(counted | {"keys": len(row["keys"])}) for row in clean],
        again=[_tell_again(again.get(row["document_id"])) for row in clean],
    )
    return len(clean)


def _tell_again(found: Mapping[str, int] | None) -> str:
    return json.dumps({"again": found} if found else {})


async def _count_left(
    database: Database, store: BlobStore, rows: list[Record], *, first: bool
) -> dict[int, Counter[str]]:
    """Remove files, and count what is left of each document; at first the files are expected."""
    keys = {key for row in rows for key in row["keys"]}
    if first:
        reach(f"{STEP}remove-files")
    present = await _remove_files(store, keys)
    gone = sorted(keys - present)
    reach(f"{STEP}remove-rows")
    await database.pool.repeat(sql.forget_blobs.run, keys=gone)
    found: dict[int, Counter[str]] = {row["document_id"]: Counter() for row in rows}
    counts = await database.pool.repeat(sql.count_beside, documents=list(found))
    for row in counts:
        found[row["document"]].update({what: count for what, count in row.items() if what != "document" and count})
    for row in rows:
        if files := present.intersection(row["keys"]):
            found[row["document_id"]]["files"] += len(files)
    for collection in {row["collection_id"] for row in rows}:
        owners = {
            version: row["document_id"]
            for row in rows
            if row["collection_id"] == collection
            for version in row["version_ids"]
        }
        rows_of = await database.pool.repeat(count_rows, collection=collection, versions=sorted(owners))
        for version, counted in rows_of.items():
            found[owners[version]].update(counted)
    return found


async def _remove_files(store: BlobStore, keys: Iterable[str]) -> set[str]:
    """Remove files; the keys of those that are there after it."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def remove(key: str) -> str | None:
        async with turn:
            await store.remove(key)
            return key if await store.size(key) is not None else None

    return {key for key in await asyncio.gather(*(remove(key) for key in sorted(keys))) if key is not None}


async def _remove_again(database: Database, rows: list[Record]) -> None:
    async def fence(tx: Session, step: str) -> None:
        """Not needed: versions of removed documents cannot be restored."""

    for row in rows:
        versions = list(row["version_ids"])
        removal = BulkRemoval(database, row["collection_id"], versions, fence)
        await removal.remove()
        async with database.pool.transaction() as tx:
            await removal.forget(tx)
            await sql.clear_facts.run(tx, versions=versions)
            await sql.clear_pages.run(tx, versions=versions)
            await remove_steps(tx, list(row["job_ids"]), versions)


async def remove_steps(tx: Session, jobs: Sequence[int], versions: Sequence[int]) -> None:
    await sql.remove_steps.run(tx, jobs=jobs, versions=[str(version) for version in versions])


def _read(row: Record) -> Receipt:
    fields = dict(row)
    for name in ("contents", "removed", "verified"):
        fields[name] = json.loads(fields[name]) if fields[name] is not None else None
    return Receipt(**fields)
