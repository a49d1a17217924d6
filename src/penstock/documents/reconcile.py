"""What should not be, found and ended in bites: so that no document waits for ever and no deletion stays half done.

Three things: documents whose job is over without having published them (a handler that returned early), members of deleted
parents, and documents of deleted collections (a process died between two pages). The SQL is in reconcile.sql.
"""

from dataclasses import dataclass
from functools import partial

from penstock.database import Database, statements
from penstock.documents.deletion import delete_page

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was put right."""

    failed: int = 0  # documents that waited for nobody
    deleted: int = 0  # whose parent or collection was


async def reconcile(database: Database, *, bite: int = 1000) -> Reconciled:
    """One round."""
    async with database.pool.transaction() as tx:
        failed = await sql.fail_abandoned(tx, bite=bite)
    orphans = await database.pool.repeat(partial(sql.orphans, bite=bite))
    deleted = await delete_page(database, [row["id"] for row in orphans], "what it belonged to was deleted")
    return Reconciled(len(failed), deleted)
