"""Deleting and restoring documents. Search does not see a deleted one from the commit on; a job purges it later (purge.py).

A deleted document can be restored until it is due for the purge: for `documents.restore_within`, or not at all if it was
deleted with `now`. What belongs to it is due with it.

The job is locked first, then the document, as everywhere; then the attachments of a mail or the members of an archive are
deleted, in pages. A process that dies between two pages leaves members without a parent, which integrity/run.py finds. A page
that is due at once enqueues the job that purges, in the same transaction.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import asyncpg
from asyncpg import Record
from pydantic import Field

from penstock.database import Database, Session, statements
from penstock.documents.document import STATES, Document
from penstock.documents.migration import complete_versions
from penstock.documents.names import (
    PREPARE,
    PREPARE_PACKET,
    check_collection_name,
    encode_metadata,
    fairness_key_of,
    no_such_collection,
)
from penstock.documents.queries import show_document
from penstock.engine import Penstock, cancel_trees, insert_alone, lane_id, wake_queues
from penstock.errors import BadValue, NameTaken, WrongState
from penstock.text import storable

sql = statements(__file__)

PAGE = 100  # documents in one transaction
REMOVER = "remove_documents"  # the kind of the job that removes, and its unique key
REMOVER_QUEUE = "upkeep"
AT_ONCE = timedelta()
PATIENCE = 10.0  # seconds for a cancelled job to end before a restore
CHECK_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class BulkDeletion:
    """The result of a deletion by a filter."""

    deleted: Annotated[int, Field(description="Documents, including attachments and archive members.")]
    more: Annotated[bool, Field(description="There are others that match.")]
    restorable_until: Annotated[datetime | None, Field(description="null: the deletion cannot be undone.")] = None


@dataclass(frozen=True, slots=True)
class Matching:
    """Conditions that documents of a collection must all meet. No condition at all is refused, unless `every` is set."""

    collection: str
    status: str | None = None
    metadata: Mapping[str, Any] | None = None
    media_types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    name_glob: str | None = None
    every: bool = False


class Replaced(Exception):
    """A document has another job than the one that was locked."""


async def delete_page(database: Database, documents: list[int], reason: str, *, by: str = "", now: bool = False) -> int:
    """Delete these documents and their members; how many there were. With `now`, none of them can be restored."""
    grace = AT_ONCE if now else database.settings.documents.restore_within or AT_ONCE
    deleted = 0
    for start in range(0, len(documents), PAGE):
        deleted += await _delete(database, documents[start : start + PAGE], reason, by, grace)
    parents = list(documents)
    while parents:
        rows = await database.pool.repeat(sql.members_of, parents=parents[:PAGE], most=PAGE)
        if not rows:
            del parents[:PAGE]
            continue
        members = [row["id"] for row in rows]
        deleted += await _delete(database, members, reason, by, grace)
        parents += members
    if now:
        await _end_restore_window(database, documents)
    return deleted


async def _end_restore_window(database: Database, documents: list[int]) -> None:
    """Make documents that were deleted before, and their members, due at once."""
    for start in range(0, len(documents), PAGE):
        async with database.pool.transaction() as tx:
            if await sql.end_restore_window(tx, documents=documents[start : start + PAGE]):
                await call_remover(tx)


async def _delete(database: Database, documents: list[int], reason: str, by: str, grace: timedelta) -> int:
    while True:
        try:
            async with database.pool.transaction() as tx:
                deleted = await delete_in(tx, documents, reason, by=by, grace=grace)
                if deleted and not grace:
                    await call_remover(tx)  # last: its key may have to wait for a concurrent deletion
                return deleted
        except (asyncpg.DeadlockDetectedError, Replaced):  # a concurrent replacement, or an archive that is published
            continue


async def delete_in(tx: Session, documents: list[int], reason: str, *, by: str = "", grace: timedelta = AT_ONCE) -> int:
    """Delete one page in the caller's transaction. Raises Replaced when a document got another job: begin again."""
    jobs = {row["job_id"] for row in await sql.jobs_of(tx, ids=documents)}
    await cancel_trees(tx, jobs, reason)
    locked = await sql.lock_documents(tx, ids=documents)
    if any(row["job_id"] is not None and row["job_id"] not in jobs and not row["shared"] for row in locked):
        raise Replaced
    rows = await sql.delete_documents(tx, ids=[row["id"] for row in locked], reason=reason, by=by, grace=grace)
    return len(rows)


async def call_remover(tx: Session) -> None:
    """Enqueue the job that purges, unless there is one: that one, or the next within a minute, purges these, too."""
    await call_alone(tx, REMOVER, REMOVER_QUEUE)


async def call_alone(tx: Session, kind: str, queue: str) -> None:
    """Enqueue a job of a kind without arguments, whose name is its unique key, unless there is one.

    Not by `enqueue`: a process that knows only the engine deletes, too.
    """
    lane = await lane_id(tx, (queue, kind, "_system"))
    if await insert_alone(tx, lane, kind):
        await wake_queues(tx, [queue])


async def delete_matching(
    app: Penstock,
    wanted: Matching,
    *,
    most: int = 1000,
    by: str = "",
    reason: str = "deleted by a filter",
    now: bool = False,
    tenant: str = "default",
) -> BulkDeletion:
    """Delete up to `most` documents that match, with their members."""
    ids = await find_matching(app, wanted, most=most + 1, tenant=tenant)
    until = None if now else await restorable_until(app)
    count = await delete_page(app.database, ids[:most], storable(reason), by=by, now=now)
    return BulkDeletion(count, len(ids) > most, until if count else None)


async def restorable_until(app: Penstock) -> datetime | None:
    """The earliest time at which a document that is deleted from now on is removed; None without a restore window."""
    grace = app.settings.documents.restore_within
    if not grace:
        return None
    until: datetime = await app.database.pool.repeat(sql.restorable_until.value, grace=grace)
    return until


async def find_matching(app: Penstock, wanted: Matching, *, most: int = 1000, tenant: str = "default") -> list[int]:
    if wanted.status is not None and (wanted.status not in STATES or wanted.status == "deleted"):
        raise BadValue(f"{wanted.status!r} cannot be deleted: use one of {', '.join(STATES[:-1])}.")
    conditions = (wanted.status, wanted.metadata, wanted.media_types, wanted.since, wanted.until, wanted.name_glob)
    if not any(conditions) and not wanted.every:
        raise BadValue(
            "This would delete all documents of the collection: name a condition, or confirm that all are meant."
        )
    for time in (wanted.since, wanted.until):
        if time is not None and time.tzinfo is None:
            raise BadValue(f"The time {time} has no time zone: add one, as in 2026-11-16T08:00:00Z.")
    collection = await app.database.pool.repeat(
        sql.find_collection.value, tenant=tenant, name=check_collection_name(wanted.collection)
    )
    if collection is None:
        raise no_such_collection(wanted.collection)
    rows = await app.database.pool.repeat(
        sql.find_matching,
        tenant=tenant,
        collection=collection,
        after=0,
        metadata=encode_metadata(dict(wanted.metadata)) if wanted.metadata else None,
        media_types=[storable(each) for each in wanted.media_types] or None,
        since=wanted.since,
        until=wanted.until,
        pattern=None if wanted.name_glob is None else like_pattern(wanted.name_glob),
        status=wanted.status,
        most=most,
    )
    return [row["id"] for row in rows]


def like_pattern(glob: str) -> str:
    """`*` is any text, also with slashes, and `?` any one character; everything else stands for itself."""
    if not glob:
        raise BadValue("The pattern of names is empty: use one such as reports/*.pdf.")
    escaped = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return storable(escaped.replace("*", "%").replace("?", "_"))


# -- restore -----------------------------------------------------------------------------------------------------------


async def restore_document(app: Penstock, document: int, *, tenant: str = "default") -> Document:
    """Bring back a deleted document and what was deleted with it. Raises WrongState and NameTaken; then nothing was changed."""
    found = await show_document(app, document, tenant=tenant)
    if found.status != "deleted":
        raise WrongState(f"Document {document} ({found.name}) is {found.status}: there is nothing to restore.")
    await _check_fate(app, document, tenant)
    await restore_page(app, [document], tenant=tenant)
    return await show_document(app, document, tenant=tenant)


async def restore_page(app: Penstock, documents: list[int], *, tenant: str = "default") -> int:
    """Bring back these documents of one collection, and what was deleted with them; how many there were."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while (restored := await _restore(app, documents, tenant)) is None:
        if loop.time() > deadline:
            which = f"Document {documents[0]} was" if len(documents) == 1 else "Documents were"
            raise WrongState(f"{which} deleted during processing, which has not ended yet: try again in a moment.")
        await asyncio.sleep(CHECK_EVERY)
    return restored


async def _restore(app: Penstock, documents: list[int], tenant: str) -> int | None:
    """None while an old job of one of them still runs: two jobs would prepare one version."""
    try:
        async with app.database.pool.transaction() as tx:
            held = await sql.hold_families(tx, documents=documents, tenant=tenant)
            rows = [row for row in held if not row["too_late"]]
            if not {row["document_id"] for row in rows}.intersection(documents):
                raise WrongState(f"Document {documents[0]} is being removed just now: upload it again.")
            live = [row["live_id"] for row in rows if row["live_id"] is not None]
            complete = await complete_versions(tx, rows[0]["collection_id"], live)
            unready = [row for row in rows if row["state"] != "ready" or row["live_id"] not in complete]
            if any(row["busy"] for row in unready):
                return None
            await _refuse_taken(tx, rows)
            jobs = await _enqueue(app, tx, unready, tenant)
            await sql.restore_documents(
                tx,
                documents=[row["document_id"] for row in rows],
                queued=list(jobs),
                jobs=list(jobs.values()),
                complete=sorted(complete),
            )
    except asyncpg.UniqueViolationError:  # the name was taken concurrently
        return None
    return len(rows)


async def _refuse_taken(tx: Session, rows: list[Record]) -> None:
    other = await sql.name_taken.first(tx, documents=[row["document_id"] for row in rows])
    if other is not None:
        raise NameTaken(
            f"The name {other['name']} belongs to document {other['id']} now: delete that one first.",
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
    enqueued = await app.enqueue_many(calls, fairness_key=fairness_key_of(tenant, unready[0]["collection"]), tx=tx)
    jobs = {row["document_id"]: int(job) for row, job in zip(alone, enqueued, strict=True)}
    # The documents of a packet are prepared by its job.
    return jobs | {row["document_id"]: jobs[row["parent_id"]] for row in unready if row["parent_id"] in packets}


async def _check_fate(app: Penstock, document: int, tenant: str) -> None:
    """Refuse a document that cannot be restored, with the reason."""
    fate = await app.database.pool.repeat(sql.fate.first, document=document, tenant=tenant)
    if fate is None or fate["state"] != "deleted":
        return
    name = f"Document {document} ({fate['name']})"
    if fate["removed_at"] is not None:
        raise WrongState(f"{name} was removed at {fate['removed_at']:%Y-%m-%d %H:%M:%S} UTC: upload it again.")
    if fate["collection_gone"]:
        raise WrongState(
            f"{name} was in collection {fate['collection']}, which is deleted: restore the collection, or upload the "
            "document to another one."
        )
    if fate["parent_gone"]:
        raise WrongState(f"{name} belongs to document {fate['parent']}, which is deleted: restore that one.")
    if fate["due_at"] is None or fate["too_late"]:
        raise WrongState(f"{name} cannot be restored any more, because it is being removed: upload it again.")
