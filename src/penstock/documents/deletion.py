"""Deleting documents: from the commit on search does not see them; a job removes what they leave behind (removal.py).

The job goes first, then the document (locks are taken in that order everywhere), then the members of a mail or an archive,
in pages. A process that dies between two pages leaves members without a parent: reconcile.py finds them. Each page tells the
job that removes to begin, in the same transaction. The SQL is in deletion.sql.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg

from penstock.database import Database, Session, statements
from penstock.documents.catalog import STATES
from penstock.documents.metadata import encode_metadata
from penstock.documents.naming import check_collection_name
from penstock.engine import Penstock
from penstock.engine.family import cancel_trees
from penstock.engine.lanes import wake_queues
from penstock.engine.queue import sql as queue_sql
from penstock.errors import BadValue, NotFound

sql = statements(__file__)

PAGE = 100
REMOVER = "remove_documents"  # the kind of the job that removes, and its unique key
REMOVER_QUEUE = "upkeep"
AT_ONCE = timedelta()


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a filter has deleted, with all that was inside; `more`: there are others that match."""

    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class Matching:
    """Documents of a collection, by what is known of them. Without a condition it is refused, unless `every` is said."""

    collection: str
    status: str | None = None
    metadata: Mapping[str, Any] | None = None
    media_types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    name_glob: str | None = None
    every: bool = False


async def delete_page(database: Database, documents: list[int], reason: str, *, by: str = "") -> int:
    """Delete these documents and all that was inside of them; how many there were."""
    deleted = 0
    for start in range(0, len(documents), PAGE):
        deleted += await _delete(database, documents[start : start + PAGE], reason, by)
    parents = list(documents)
    while parents:
        rows = await database.pool.repeat(partial(sql.members_of, parents=parents[:PAGE], most=PAGE))
        if not rows:
            del parents[:PAGE]
            continue
        members = [row["id"] for row in rows]
        deleted += await _delete(database, members, reason, by)
        parents += members
    return deleted


async def _delete(database: Database, documents: list[int], reason: str, by: str) -> int:
    grace = database.settings.documents.restore_within or AT_ONCE
    while True:
        try:
            async with database.pool.transaction() as tx:
                deleted = await delete_in(tx, documents, reason, by=by, grace=grace)
                if deleted and not grace:
                    await call_remover(tx)  # the last: who waits for another's key holds it up for no longer
                return deleted
        except (
            asyncpg.DeadlockDetectedError,
            Replaced,
        ):  # a replacement came in between, or an archive that is published
            continue


async def delete_in(tx: Session, documents: list[int], reason: str, *, by: str = "", grace: timedelta = AT_ONCE) -> int:
    """One page, in the caller's transaction. Raises Replaced when a document got another job meanwhile: begin anew."""
    jobs = {row["job_id"] for row in await sql.jobs_of(tx, ids=documents)}
    await cancel_trees(tx, jobs, reason)
    locked = await sql.lock_documents(tx, ids=documents)
    if any(row["job_id"] is not None and row["job_id"] not in jobs and not row["shared"] for row in locked):
        raise Replaced
    rows = await sql.delete_documents(tx, ids=[row["id"] for row in locked], reason=reason, by=by, grace=grace)
    return len(rows)


async def call_remover(tx: Session) -> None:
    """A job that removes, unless one is there: it then comes to these, too, or the next one does within a minute."""
    await call_alone(tx, REMOVER, REMOVER_QUEUE)


async def call_alone(tx: Session, kind: str, queue: str) -> None:
    """A job of a kind without arguments, whose name is its unique key, unless one is there.

    Not by `enqueue`: a process that knows only the engine deletes, too.
    """
    [row] = await queue_sql.reserve_ids(tx, count=1)
    if not await queue_sql.take_keys(tx, keys=[kind], ids=[row[0]]):
        return
    lane = await sql.lane_of.value(tx, queue=queue, kind=kind)
    if lane is None:
        lane = await sql.add_lane.value(tx, queue=queue, kind=kind)
    await queue_sql.insert_keyed_jobs.run(
        tx, ids=[row[0]], lanes=[lane], priorities=[0], args=["{}"], delays=[None], keys=[kind], keeps=[None]
    )
    await wake_queues(tx, [queue])


async def delete_matching(
    app: Penstock,
    wanted: Matching,
    *,
    most: int = 1000,
    by: str = "",
    reason: str = "deleted by a filter",
    tenant: str = "default",
) -> Deleted:
    """Delete up to `most` documents that match, with what was inside."""
    ids = await find_matching(app, wanted, most=most + 1, tenant=tenant)
    count = await delete_page(app.database, ids[:most], _clean(reason), by=by)
    return Deleted(count, len(ids) > most)


async def find_matching(app: Penstock, wanted: Matching, *, most: int = 1000, tenant: str = "default") -> list[int]:
    """The numbers of the documents that a filter means."""
    if wanted.status is not None and (wanted.status not in STATES or wanted.status == "deleted"):
        raise BadValue(f"{wanted.status!r} cannot be deleted: use one of {', '.join(STATES[:-1])}.")
    conditions = (wanted.status, wanted.metadata, wanted.media_types, wanted.since, wanted.until, wanted.name_glob)
    if not any(conditions) and not wanted.every:
        raise BadValue(
            "This would delete all documents of the collection: name a condition, or say that all are meant."
        )
    for moment in (wanted.since, wanted.until):
        if moment is not None and moment.tzinfo is None:
            raise BadValue(f"The time {moment} has no time zone: add one, as in 2026-11-16T08:00:00Z.")
    known = partial(sql.find_collection.value, tenant=tenant, name=check_collection_name(wanted.collection))
    number = await app.database.pool.repeat(known)
    if number is None:
        raise NotFound(f"There is no collection {wanted.collection}: see the list for those that there are.")
    found = partial(
        sql.find_matching,
        tenant=tenant,
        collection=number,
        after=0,
        metadata=encode_metadata(dict(wanted.metadata)) if wanted.metadata else None,
        media_types=[_clean(each) for each in wanted.media_types] or None,
        since=wanted.since,
        until=wanted.until,
        pattern=None if wanted.name_glob is None else like_pattern(wanted.name_glob),
        status=wanted.status,
        most=most,
    )
    return [row["id"] for row in await app.database.pool.repeat(found)]


def like_pattern(glob: str) -> str:
    """`*` is any text, also with slashes, and `?` any one character; everything else stands for itself."""
    if not glob:
        raise BadValue("The pattern of names is empty: use one such as reports/*.pdf.")
    escaped = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return _clean(escaped.replace("*", "%").replace("?", "_"))


def _clean(text: str) -> str:
    """PostgreSQL takes neither NUL nor halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Replaced(Exception):
    """A document has another job than the one that was locked."""
