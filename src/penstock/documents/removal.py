"""Removing what deleted documents leave behind: index rows, facts, pages, steps, versions, bytes. A receipt of it stays.

    delete ─▶ removals ─▶ counted ─▶ index, facts and pages removed ─▶ [last rows, receipt] ─▶ files removed ─▶ looked again
                              └─▶ points of the other index, by a job of their own (leaving.py) ─────────────────┘

Many documents of a collection go together, in short transactions with rests between them. Each begins by locking the
documents' rows in `removals`, so that nobody removes what is being restored, or what somebody else has removed. Whoever is
killed leaves the rows, or an unverified receipt, and the next one goes on. Documents whose jobs still run wait for those. The
SQL is in removal.sql; the second look is in receipts.py.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from penstock.blobs import Store
from penstock.database import Database, Session, Statement, statements
from penstock.documents.leaving import note_leaving
from penstock.documents.receipts import remove_steps, verify_receipts
from penstock.engine.failpoint import STEP, reach
from penstock.search import drop_vector_indexes
from penstock.search.withdrawal import REST, Withdrawal, count_rows

sql = statements(__file__)

DOCUMENTS = 500  # that are removed together: a long row of postings is written once for all of them
CHUNKS = 50_000  # of them, at most
BITE = 500  # pages, which may be long
COUNTED = ("chunks", "vectors", "postings")  # of what the index says, what a receipt names
BESIDE = ("pages", "checkpoints", "facts")


@dataclass(frozen=True, slots=True)
class Group:
    """Documents of one collection that are removed together."""

    collection: int
    documents: Sequence[int]
    owners: dict[int, int]  # documents by version
    jobs: list[tuple[int, int]]  # document and job

    @property
    def versions(self) -> list[int]:
        return sorted(self.owners)


class Withdrawn(Exception):
    """Some documents of the group are not ours to remove any more: begin anew."""


async def remove_deleted(database: Database, store: Store, *, rest: float = REST) -> int:
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
    await verify_receipts(database, store)  # of somebody who was killed before
    return removed


async def is_anything_due(database: Database) -> bool:
    """Whether there is something to remove or to verify, perhaps after a job's end."""
    return bool(await database.pool.repeat(sql.is_anything_due.value))


async def next_group(session: Session, *, most: int = DOCUMENTS) -> Group | None:
    """The documents that are removed next; None if there are none, or all wait for their jobs."""
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

    withdrawal = Withdrawal(database, group.collection, group.versions, fence, rest)
    async with database.pool.transaction() as tx:
        await fence(tx, "count")
        await _count(tx, group)
        await note_leaving(tx, group.collection, group.versions)  # nobody can restore them any more
    await withdrawal.remove()
    for step, statement in (("facts", sql.remove_facts), ("answers", sql.remove_answers), ("pages", sql.remove_pages)):
        await _remove_bites(database, group, withdrawal, step, statement)
    async with database.pool.transaction() as tx:
        await fence(tx, "last")
        await sql.hold_entities.run(tx, collection=group.collection)  # what was read meanwhile goes with its version
        await withdrawal.forget(tx)
        jobs = [job for _, job in group.jobs]
        await remove_steps(tx, jobs, group.versions)
        await sql.lock_blobs(tx, documents=group.documents)
        await sql.write_receipts.run(
            tx, documents=group.documents, owners=[document for document, _ in group.jobs], jobs=jobs
        )
        reach(f"{STEP}remove-commit", tx)


async def _count(tx: Session, group: Group) -> None:
    """What there is, by document, before anything of it goes."""
    counts = {document: dict.fromkeys((*COUNTED, *BESIDE), 0) for document in group.documents}
    indexed = await count_rows(tx, group.collection, group.versions)
    for version, found in indexed.items():
        for what in COUNTED:
            counts[group.owners[version]][what] += found.get(what, 0)
    for row in await sql.count_kept(tx, versions=group.versions, jobs=[job for _, job in group.jobs]):
        for what in BESIDE:
            counts[group.owners[row["version"]]][what] += row[what]
    await sql.note_begun.run(tx, documents=list(counts), counts=[json.dumps(each) for each in counts.values()])


async def _remove_bites(
    database: Database, group: Group, withdrawal: Withdrawal, step: str, statement: Statement
) -> None:
    bite = BITE
    while bite == BITE:
        began = time.monotonic()
        async with database.pool.transaction() as tx:
            await withdrawal.fence(tx, step)
            if step == "facts":
                await sql.hold_entities.run(tx, collection=group.collection)
            bite = await statement.value(tx, versions=group.versions, most=BITE)
        await withdrawal.pause(time.monotonic() - began)
