"""Bringing back what was deleted, while it is not due for removal (`documents.restore_within`).

The document comes back with all members that were deleted with it, in one transaction: what search saw it sees again; what was
not ready, or has no vectors of the model that the collection has by now, gets a new job. Whoever restores and whoever removes
lock the same rows of `removals`, and only one of them finds them not due. The SQL is in restoring.sql.
"""

import asyncio
from datetime import datetime

import asyncpg
from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.catalog import Document, show_document
from penstock.documents.naming import share_of
from penstock.documents.reembedding import complete_versions
from penstock.documents.wish import PREPARE, PREPARE_PACKET
from penstock.engine import Penstock
from penstock.errors import NameTaken, WrongState

sql = statements(__file__)

PATIENCE = 10.0  # seconds for a job to end that was told to
LOOK_EVERY = 0.2


async def restore_document(app: Penstock, document: int, *, tenant: str = "default") -> Document:
    """Bring back a deleted document and what was deleted with it. Raises WrongState and NameTaken; then nothing was changed."""
    found = await show_document(app, document, tenant=tenant)
    if found.status != "deleted":
        raise WrongState(f"Document {document} ({found.name}) is {found.status}: there is nothing to restore.")
    await _check_fate(app, document, tenant)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while not await _restore(app, document, tenant):
        if loop.time() > deadline:
            raise WrongState(
                f"Document {document} ({found.name}) was deleted while it was processed, and that has not ended yet: try again "
                "in a moment."
            )
        await asyncio.sleep(LOOK_EVERY)
    return await show_document(app, document, tenant=tenant)


async def _restore(app: Penstock, document: int, tenant: str) -> bool:
    """False while an old job of one of them still runs: two would prepare one version."""
    try:
        async with app.database.pool.transaction() as tx:
            rows = await sql.hold_family(tx, document=document, tenant=tenant)
            if not rows or any(row["too_late"] for row in rows if row["document_id"] == document):
                raise WrongState(f"Document {document} is being removed just now: upload it again.")
            rows = [row for row in rows if not row["too_late"]]
            live = [row["live_id"] for row in rows if row["live_id"] is not None]
            complete = await complete_versions(tx, rows[0]["collection_id"], live)
            unready = [row for row in rows if row["state"] != "ready" or row["live_id"] not in complete]
            if any(row["busy"] for row in unready):
                return False
            await _refuse_taken(tx, rows)
            jobs = await _enqueue(app, tx, unready, tenant)
            await sql.restore_documents(
                tx,
                documents=[row["document_id"] for row in rows],
                queued=list(jobs),
                jobs=list(jobs.values()),
                complete=sorted(complete),
            )
    except asyncpg.UniqueViolationError:  # somebody took the name since we looked
        return False
    return True


async def _refuse_taken(tx: Session, rows: list[Record]) -> None:
    other = await sql.name_taken.first(tx, documents=[row["document_id"] for row in rows])
    if other is not None:
        raise NameTaken(
            f"The name {other['name']} belongs to document {other['id']} by now: delete that one first.",
            existing=other["id"],
        )


async def _enqueue(app: Penstock, tx: Session, unready: list[Record], tenant: str) -> dict[int, int]:
    """New jobs, by document, for those that were not ready; their old ones were cancelled."""
    if not unready:
        return {}
    packets = {row["document_id"] for row in unready if row["packet"]}
    alone = [row for row in unready if row["parent_id"] not in packets]
    calls = [
        app.kinds[PREPARE_PACKET if row["packet"] else PREPARE](document=row["document_id"], version=row["version_id"])
        for row in alone
    ]
    numbers = await app.enqueue_many(calls, share=share_of(tenant, unready[0]["collection"]), tx=tx)
    jobs = {row["document_id"]: int(number) for row, number in zip(alone, numbers, strict=True)}
    # The documents of a packet are prepared by its job.
    return jobs | {row["document_id"]: jobs[row["parent_id"]] for row in unready if row["parent_id"] in packets}


async def _check_fate(app: Penstock, document: int, tenant: str) -> None:
    """Why it cannot come back, in a sentence."""
    fate = await app.database.pool.repeat(lambda session: sql.fate.first(session, document=document, tenant=tenant))
    if fate is None or fate["state"] != "deleted":
        return
    name = f"Document {document} ({fate['name']})"
    if fate["removed_at"] is not None:
        raise WrongState(f"{name} was removed at {_moment(fate['removed_at'])}: upload it again.")
    if fate["collection_gone"]:
        raise WrongState(
            f"{name} was in the collection {fate['collection']}, which is deleted: upload it to another one."
        )
    if fate["parent_gone"]:
        raise WrongState(f"{name} was inside of document {fate['parent']}, which is deleted: restore that one.")
    if fate["due_at"] is None or fate["too_late"]:
        raise WrongState(
            f"{name} cannot be restored any more: it is being removed. Upload it again. (`documents.restore_within` says how "
            "long a deleted document can be restored.)"
        )


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
