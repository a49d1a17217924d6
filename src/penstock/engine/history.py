"""The history's partitions: one per day, made ahead and dropped when they are old, by every worker.

Rows that no day takes go to the partition `job_history_rest`, so nothing depends on this having run in time. Making and
dropping lock the history for a moment: whoever has the advisory lock does it for all, and never waits long behind a
reader, since everybody who ends a job would wait behind him. The SQL is in history.sql.
"""

from datetime import timedelta

import asyncpg

from penstock.database import Session, statements
from penstock.telemetry import log

sql = statements(__file__)


async def make_partitions(session: Session) -> int:
    """Make the missing partitions of today and the next two days; how many."""
    missing = await sql.missing_partitions(session)
    return sum([await _change(session, row["statement"]) for row in missing])


async def drop_partition(session: Session, kept: timedelta) -> bool:
    """Drop the oldest day, if all of it is older than what is kept; one at a time."""
    row = await sql.expired_partition.first(session, kept=kept)
    if row is None or not await _change(session, row["statement"]):
        return False
    log.info("dropped a day of the history", day=row["day"], rows=max(row["rows"], 0))
    return True


async def sweep_rest(session: Session, kept: timedelta, bite: int) -> int:
    """Delete old rows that are in no day, a bite of them; how many."""
    swept: int = await sql.sweep_rest.value(session, kept=kept, bite=bite)
    return swept


async def _change(session: Session, statement: str) -> bool:
    """One day in a transaction of its own. Whoever has the lock does it for all."""
    try:
        async with session.transaction():
            await session.execute(
                "set local lock_timeout = '2s'"
            )  # a long reader of the history must not stop the fleet
            if not await sql.try_partition_lock.value(session):
                return False
            await session.execute(statement)
    except (
        asyncpg.InsufficientPrivilegeError,  # the owner's role must do it: see database_owner_url
        asyncpg.LockNotAvailableError,
        asyncpg.CheckViolationError,  # the rest has rows of that day already, and takes the new ones, too
        asyncpg.DuplicateTableError,
        asyncpg.UndefinedTableError,  # dropped by somebody else a moment ago
        asyncpg.WrongObjectTypeError,  # attached by somebody else a moment ago
    ) as error:
        log.debug("a partition of the history was not changed", error=str(error))
        return False
    return True
