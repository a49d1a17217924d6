"""What old documents leave behind, removed in bites by a job that comes every minute; and counts that grow, added up.

Each function does a bounded part and says how much it did; what is left is done the next time. The SQL is in cleaning.sql.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from penstock.blobs import Store, collect
from penstock.database import Database, Session, statements
from penstock.documents.idempotency import sweep_keys
from penstock.documents.leaving import note_leaving

sql = statements(__file__)

VERSIONS = 200  # in one round
BITE = 1000


class Clear(Protocol):
    """What removes a bite of a version from the index; 0 when nothing is left."""

    def __call__(self, tx: Session, /, *, version: int) -> Awaitable[int]: ...


@dataclass(frozen=True, slots=True)
class DeadVersion:
    """A version whose rows nobody will see again."""

    version: int
    document: int
    collection: int
    model: str


async def list_dead_versions(session: Session, *, after: int = 0, most: int = VERSIONS) -> list[DeadVersion]:
    """Versions of documents that are not deleted, neither live nor the newest, and that nobody works on."""
    rows = await sql.list_dead_versions(session, after=after, most=most)
    return [DeadVersion(**row) for row in rows]


async def clear_old_versions(database: Database, clear: Clear, *, most: int = VERSIONS) -> int:
    """Remove pages and index rows of versions that nobody will see again; how many versions."""
    dead = await database.pool.repeat(partial(list_dead_versions, most=most))
    for version in dead:
        await _clear_version(database, clear, version)
    return len(dead)


async def _clear_version(database: Database, clear: Clear, dead: DeadVersion) -> None:
    """In short transactions, one for each bite."""
    left = True
    while left:
        async with database.pool.transaction() as tx:
            cleared = await clear(tx, version=dead.version)
            pages = await sql.clear_pages(tx, version=dead.version, bite=BITE)
            answers = await sql.clear_answers.value(tx, version=dead.version, bite=BITE)
            left = bool(cleared or pages or answers)
            if not left:
                await sql.note_cleared.run(tx, version=dead.version)
                await note_leaving(tx, dead.collection, [dead.version])


async def compact_tallies(database: Database, *, bite: int = BITE) -> int:
    """Add counts up: many rows become one for each collection; how many there were."""
    async with database.pool.transaction() as tx:
        added: int = await sql.compact_tallies.value(tx, bite=bite)
    return added


async def sweep_answers(database: Database, *, bite: int = BITE) -> int:
    """Forget the answers to idempotent requests that are a day old."""
    return await database.pool.repeat(partial(sweep_keys, bite=bite))


async def collect_blobs(database: Database, store: Store, grace: timedelta) -> int:
    """Remove bytes that belong to no document, from a part of the store; how many."""
    collected = await collect(database, store, grace, whole=False)
    return collected.files + collected.blobs
