"""The history's partitions: one per day, made ahead by every worker.

Rows that no day takes go to the partition `job_history_rest`, so nothing depends on this having run in time; days can be
dropped as a whole when they are old. The SQL is in history.sql.
"""

import asyncpg

from penstock.database import Session, statements
from penstock.telemetry import log

sql = statements(__file__)


async def make_partitions(session: Session) -> int:
    """Make the missing partitions of today and the next two days; how many."""
    missing = await sql.missing_partitions(session)
    return sum([await _make(session, row["statement"]) for row in missing])


async def _make(session: Session, statement: str) -> bool:
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
        asyncpg.WrongObjectTypeError,  # attached by somebody else a moment ago
    ) as error:
        log.debug("a partition of the history was not made", error=str(error))
        return False
    return True
