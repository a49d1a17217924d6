"""Removing what nobody waits for: old history, expired keys, steps of jobs that are over, workers long gone.

Every worker sweeps once a minute on the beat's connection, in bites; when a bite was not enough, the next one follows
with the next beat. Rows that another worker has locked are skipped. The SQL is in sweep.sql, that of the history in
history.sql.
"""

from penstock.database import Session, statements
from penstock.engine.history import drop_partition, make_partitions, sweep_rest
from penstock.settings import Settings

sql = statements(__file__)

BITE = 500
# Their rows live for seconds; `doctor` looks at them, and `penstock db vacuum` cleans them.
HOT_TABLES = ("jobs", "job_keys", "workers", "checkpoints", "fanouts", "schedules", "limits", "allotments")


class Sweeper:
    """The sweeping of one worker; it remembers how far it has come."""

    def __init__(self, settings: Settings, *, bite: int = BITE) -> None:
        self._kept = settings.engine
        self._bite = bite
        self._after = 0  # the last job whose steps were looked at in this pass

    async def sweep(self, session: Session) -> bool:
        """One round; True when there is more to do."""
        await make_partitions(session)
        swept = [
            self._bite if await drop_partition(session, self._kept.history_kept) else 0,
            await sweep_rest(session, self._kept.history_kept, self._bite),
            await sql.sweep_keys.value(session, bite=self._bite),
            await sql.sweep_shared_checkpoints.value(session, kept=self._kept.checkpoints_kept, bite=self._bite),
            await self._sweep_own_checkpoints(session),
        ]
        await sql.sweep_workers.run(session)
        return any(count >= self._bite for count in swept)

    async def _sweep_own_checkpoints(self, session: Session) -> int:
        """One page on; how many were looked at."""
        row = await sql.sweep_own_checkpoints.first(session, after=self._after, bite=self._bite)
        if row is None or row["looked"] < self._bite:
            self._after = 0
            return 0
        self._after = row["last"]
        return self._bite
