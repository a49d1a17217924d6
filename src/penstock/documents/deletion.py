"""Deleting documents: from the commit on search does not see them; what they leave behind is removed later.

The job goes first, then the document (locks are taken in that order everywhere), then the members of a mail or an archive,
in pages. A process that dies between two pages leaves members without a parent: reconcile.py finds them. The SQL is in
deletion.sql.
"""

from functools import partial

import asyncpg

from penstock.database import Database, Session, statements
from penstock.engine.family import cancel_trees

sql = statements(__file__)

PAGE = 100


async def delete_page(database: Database, documents: list[int], reason: str) -> int:
    """Delete these documents and all that was inside of them; how many there were."""
    deleted = 0
    for start in range(0, len(documents), PAGE):
        deleted += await _delete(database, documents[start : start + PAGE], reason)
    parents = list(documents)
    while parents:
        rows = await database.pool.repeat(partial(sql.members_of, parents=parents[:PAGE], most=PAGE))
        if not rows:
            del parents[:PAGE]
            continue
        members = [row["id"] for row in rows]
        deleted += await _delete(database, members, reason)
        parents += members
    return deleted


async def _delete(database: Database, documents: list[int], reason: str) -> int:
    while True:
        try:
            async with database.pool.transaction() as tx:
                return await delete_in(tx, documents, reason)
        except (
            asyncpg.DeadlockDetectedError,
            Replaced,
        ):  # a replacement came in between, or an archive that is published
            continue


async def delete_in(tx: Session, documents: list[int], reason: str) -> int:
    """One page, in the caller's transaction. Raises Replaced when a document got another job meanwhile: begin anew."""
    jobs = {row["job_id"] for row in await sql.jobs_of(tx, ids=documents)}
    await cancel_trees(tx, jobs, reason)
    locked = await sql.lock_documents(tx, ids=documents)
    if any(row["job_id"] is not None and row["job_id"] not in jobs for row in locked):
        raise Replaced
    rows = await sql.delete_documents(tx, ids=[row["id"] for row in locked], reason=reason)
    return len(rows)


class Replaced(Exception):
    """A document has another job than the one that was locked."""
