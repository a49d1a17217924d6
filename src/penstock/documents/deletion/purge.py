"""Purging what documents leave behind: index rows, facts, pages, steps, versions, bytes. A receipt of it stays.

    delete ─▶ removals ─▶ counted ─▶ index, facts and pages removed ─▶ [last rows, receipt] ─▶ files removed ─▶ verified
                              └─▶ points in Qdrant, by a job of their own (pipelines/qdrant.py) ────────────────┘

Many documents of a collection are purged together, in short transactions with pauses between them. Each transaction locks the
documents' rows in `removals` first, so that it removes nothing that is being restored or was removed concurrently. A process
that is killed leaves the rows, or an unverified receipt, and the next one goes on. Documents whose jobs still run wait for
those. The verification is in receipts.py. Versions that were replaced, idempotency keys and unused blobs are cleared here as
well.
"""

import json
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from penstock.blobs import BlobStore, collect
from penstock.database import Database, Session, Statement, statements
from penstock.documents.deletion.delete import call_alone
from penstock.documents.deletion.receipts import remove_steps, verify_receipts
from penstock.documents.ingest.idempotency import sweep_keys
from penstock.engine import STEP, Penstock, reach
from penstock.search import REST, BulkRemoval, count_rows, drop_vector_indexes

sql = statements(__file__)

REMOVE_POINTS = "remove_points"  # the kind of the job, and its unique key
POINTS_QUEUE = "points"
VERSIONS = 200  # replaced versions that are cleared in one round
GARBAGE_BATCH = 1000
DOCUMENTS = 500  # that are purged together: a long row of postings is written once for all of them
CHUNKS = 50_000  # of them, at most
PURGE_BATCH = 500  # pages, which may be long
INDEX_COUNTS = ("chunks", "vectors", "postings")  # of the index, in a receipt
OTHER_COUNTS = ("pages", "checkpoints", "facts")


@dataclass(frozen=True, slots=True)
class Group:
    """Documents of one collection that are purged together."""

    collection: int
    documents: Sequence[int]
    owners: dict[int, int]  # documents by version
    jobs: list[tuple[int, int]]  # document and job

    @property
    def versions(self) -> list[int]:
        return sorted(self.owners)


class Withdrawn(Exception):
    """A document of the group was restored or removed concurrently: begin again."""


async def remove_deleted(database: Database, store: BlobStore, *, rest: float = REST) -> int:
    """Remove all that is due and whose jobs have ended, and verify it; how many documents."""
    removed = 0
    while group := await database.pool.repeat(next_group):
        await drop_vector_indexes(
            database, group.collection, partial(sql.is_searched.value, collection=group.collection)
        )
        try:
            await _remove(database, group, rest)
        except Withdrawn:
            continue
        removed += len(group.documents)
        await verify_receipts(database, store)
    await verify_receipts(database, store)  # of a process that was killed before
    return removed


async def is_anything_due(database: Database) -> bool:
    """Whether there is something to remove or to verify, perhaps after a job's end."""
    return bool(await database.pool.repeat(sql.is_anything_due.value))


async def next_group(session: Session, *, most: int = DOCUMENTS) -> Group | None:
    """The documents that are purged next; None if there are none, or all wait for their jobs."""
    rows = await sql.next_removals(session, most=most, chunks=CHUNKS)
    if not rows:
        return None
    documents = sorted(row["document_id"] for row in rows)
    versions = await sql.versions_of(session, documents=documents)
    return Group(
        rows[0]["collection_id"],
        documents,
        {row["id"]: row["document_id"] for row in versions},
        sorted({(row["document_id"], job) for row in versions for job in row["jobs"]}),
    )


async def _remove(database: Database, group: Group, rest: float) -> None:
    async def fence(tx: Session, step: str) -> None:
        held = await sql.hold(tx, documents=group.documents)
        if len(held) < len(group.documents):
            raise Withdrawn
        reach(f"{STEP}remove-{step}", tx)

    removal = BulkRemoval(database, group.collection, group.versions, fence, rest)
    async with database.pool.transaction() as tx:
        await fence(tx, "count")
        await _count(tx, group)
        await order_qdrant_removals(tx, group.collection, group.versions)  # they cannot be restored any more
    await removal.remove()
    for step, statement in (("facts", sql.remove_facts), ("answers", sql.remove_answers), ("pages", sql.remove_pages)):
        await _remove_batches(database, group, removal, step, statement)
    async with database.pool.transaction() as tx:
        await fence(tx, "last")
        await sql.hold_entities.run(tx, collection=group.collection)  # what was read meanwhile goes with its version
        await removal.forget(tx)
        jobs = [job for _, job in group.jobs]
        await remove_steps(tx, jobs, group.versions)
        await sql.lock_blobs(tx, documents=group.documents)
        await sql.write_receipts.run(
            tx, documents=group.documents, owners=[document for document, _ in group.jobs], jobs=jobs
        )
        reach(f"{STEP}remove-commit", tx)


async def _count(tx: Session, group: Group) -> None:
    """Note the counts of each document before anything of it is removed."""
    counts = {document: dict.fromkeys((*INDEX_COUNTS, *OTHER_COUNTS), 0) for document in group.documents}
    indexed = await count_rows(tx, group.collection, group.versions)
    for version, found in indexed.items():
        for what in INDEX_COUNTS:
            counts[group.owners[version]][what] += found.get(what, 0)
    for row in await sql.count_kept(tx, versions=group.versions, jobs=[job for _, job in group.jobs]):
        for what in OTHER_COUNTS:
            counts[group.owners[row["version"]]][what] += row[what]
    await sql.note_begun.run(tx, documents=list(counts), counts=[json.dumps(each) for each in counts.values()])


async def _remove_batches(
    database: Database, group: Group, removal: BulkRemoval, step: str, statement: Statement
) -> None:
    removed = PURGE_BATCH
    while removed == PURGE_BATCH:
        began = time.monotonic()
        async with database.pool.transaction() as tx:
            await removal.fence(tx, step)
            if step == "facts":
                await sql.hold_entities.run(tx, collection=group.collection)
            removed = await statement.value(tx, versions=group.versions, most=PURGE_BATCH)
        await removal.pause(time.monotonic() - began)


# -- points in Qdrant --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QdrantRemoval:
    """A version whose points have to be removed from Qdrant, and the model that they are of."""

    version: int
    model: str


async def order_qdrant_removals(tx: Session, collection: int, versions: Sequence[int]) -> None:
    """Order the removal of the points of these versions, if there may be some, as the last step of a transaction."""
    if await sql.order_qdrant_removals(tx, collection=collection, versions=list(versions)):
        await call_alone(tx, REMOVE_POINTS, POINTS_QUEUE)


async def list_qdrant_removals(session: Session, *, most: int) -> list[QdrantRemoval]:
    """The next versions whose points have to be removed, all of one model."""
    return [QdrantRemoval(**row) for row in await sql.list_qdrant_removals(session, most=most)]


async def forget_qdrant_removals(tx: Session, versions: Sequence[int]) -> None:
    """Drop the orders for versions of which Qdrant has no points any more, as counted."""
    await sql.forget_qdrant_removals.run(tx, versions=list(versions))


async def call_qdrant_remover(app: Penstock) -> bool:
    """Enqueue the job that removes points, if there are orders and no job yet; whether there are orders."""
    if REMOVE_POINTS not in app.kinds or not await app.database.pool.repeat(sql.has_qdrant_removals.value):
        return False
    call = app.kinds[REMOVE_POINTS]()
    job = await app.enqueue(call, unique=REMOVE_POINTS, fairness_key="_system")
    # A dead one has the key, and would keep it for ever: its failure stays in the history, and another one tries.
    if not job.created and await app.discard(job, reason="another one removes what is left"):
        await app.enqueue(call, unique=REMOVE_POINTS, fairness_key="_system")
    return True


# -- garbage: replaced versions, deltas of counts, idempotency keys, unused blobs ---------------------------------------


class Clear(Protocol):
    """Removes a batch of a version from the index; 0 when nothing is left."""

    def __call__(self, tx: Session, /, *, version: int) -> Awaitable[int]: ...


@dataclass(frozen=True, slots=True)
class DeadVersion:
    """A version whose rows search will not see again."""

    version: int
    document: int
    collection: int
    model: str


async def list_dead_versions(session: Session, *, after: int = 0, most: int = VERSIONS) -> list[DeadVersion]:
    """Versions that are neither live nor the newest, of documents that are not deleted, without a running job."""
    rows = await sql.list_dead_versions(session, after=after, most=most)
    return [DeadVersion(**row) for row in rows]


async def clear_old_versions(database: Database, clear: Clear, *, most: int = VERSIONS) -> int:
    """Remove pages and index rows of dead versions; how many versions."""
    dead = await database.pool.repeat(list_dead_versions, most=most)
    for version in dead:
        await _clear_version(database, clear, version)
    return len(dead)


async def _clear_version(database: Database, clear: Clear, dead: DeadVersion) -> None:
    """In short transactions, one for each batch."""
    left = True
    while left:
        async with database.pool.transaction() as tx:
            cleared = await clear(tx, version=dead.version)
            pages = await sql.clear_pages(tx, version=dead.version, batch=GARBAGE_BATCH)
            answers = await sql.clear_answers.value(tx, version=dead.version, batch=GARBAGE_BATCH)
            left = bool(cleared or pages or answers)
            if not left:
                await sql.note_cleared.run(tx, version=dead.version)
                await order_qdrant_removals(tx, dead.collection, [dead.version])


async def compact_tallies(database: Database, *, batch: int = GARBAGE_BATCH) -> int:
    """Compact the counts of collections to one row each; how many rows there were."""
    async with database.pool.transaction() as tx:
        added: int = await sql.compact_tallies.value(tx, batch=batch)
    return added


async def sweep_answers(database: Database, *, batch: int = GARBAGE_BATCH) -> int:
    """Forget the answers to idempotent requests that are a day old."""
    return await database.pool.repeat(sweep_keys, batch=batch)


async def collect_blobs(database: Database, store: BlobStore, grace: timedelta) -> int:
    """Remove bytes that belong to no document from a part of the blob store; how many."""
    collected = await collect(database, store, grace, whole=False)
    return collected.files + collected.blobs
