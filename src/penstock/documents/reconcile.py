"""What should not be, found and ended at once: so that no document waits for ever and no deletion stays half done.

Three things: documents whose job is over without having published them (a handler that returned early), members of deleted
parents, and documents of deleted collections (a process died between two pages). It comes every minute; what takes longer to
look through is in checks/. The SQL is in reconcile.sql.
"""

from dataclasses import dataclass
from functools import partial

from penstock.database import Database, statements
from penstock.documents.checks.finding import Found, note_repaired
from penstock.documents.deletion import delete_page

sql = statements(__file__)

PAGES = 100  # of waiting documents in one round


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was put right."""

    failed: int = 0  # documents that waited for nobody
    deleted: int = 0  # whose parent or collection was


async def reconcile(database: Database, *, bite: int = 1000) -> Reconciled:
    """One round."""
    failed = await _fail_abandoned(database, bite)
    return Reconciled(failed, await _delete_orphans(database, bite))


async def _fail_abandoned(database: Database, bite: int) -> int:
    failed, after = 0, 0
    for _ in range(PAGES):
        page = await database.pool.repeat(partial(sql.waiting.first, after=after, bite=bite))
        if page is None or page["last"] is None:
            break
        after = page["last"]
        failed += await _fail(database, page["abandoned"]) if page["abandoned"] else 0
    return failed


async def _fail(database: Database, documents: list[int]) -> int:
    """Locked first and looked at after that: a retry or a replacement that came in between has given it another job."""
    async with database.pool.transaction() as tx:
        locked = [row["id"] for row in await sql.lock_waiting(tx, ids=documents)]
        rows = await sql.fail_abandoned(tx, ids=locked)
        found = [
            Found(
                row["id"],
                f"Document {row['id']} ({row['name']}) waited, and its job was over.",
                f"penstock why {row['id']}",
                row["id"],
                row["tenant"],
            )
            for row in rows
        ]
        await note_repaired(tx, "jobs", found, "It has failed, and can be retried.")
    return len(rows)


async def _delete_orphans(database: Database, bite: int) -> int:
    orphans = await database.pool.repeat(partial(sql.orphans, bite=bite))
    if not orphans:
        return 0
    deleted = await delete_page(database, [row["id"] for row in orphans], "what it belonged to was deleted")
    found = [
        Found(
            row["id"],
            f"Document {row['id']} ({row['name']}) was there, and what it belonged to was deleted.",
            f"penstock why {row['id']}",
            row["id"],
            row["tenant"],
        )
        for row in orphans
        if row["late"]
    ]
    async with database.pool.transaction() as tx:
        await note_repaired(tx, "orphans", found, "It was deleted.")
    return deleted
