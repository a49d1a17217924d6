"""What every worker does for all: find the lost, take their jobs back, promote what is due, sweep what is over.

There is no leader. Each worker does these chores between its beats, in bounded bites on the beat's connection; rows that
another one has locked are skipped. The SQL is in chores.sql.
"""

import time

from penstock import telemetry
from penstock.database import Session, statements
from penstock.engine.failpoint import reach
from penstock.engine.history import make_partitions
from penstock.engine.settler import sql as settler_sql
from penstock.settings import Settings
from penstock.telemetry import log

sql = statements(__file__)

TICK = 0.5
BITE = 500
DEATHS_ALLOWED = 2
SWEEP_EVERY = 60.0

expiries = telemetry.counter("penstock_workers_lost_total", "Workers that were declared gone by this one", ("why",))
rescued = telemetry.counter("penstock_jobs_rescued_total", "Jobs taken back from lost workers", ("to",))
promoted = telemetry.counter("penstock_jobs_promoted_total", "Jobs whose time had come")


class Chores:
    """The chores of one worker."""

    def __init__(self, settings: Settings, worker_id: int) -> None:
        self._settings = settings
        self._worker_id = worker_id
        self._sweep_at = 0.0

    async def do(self, session: Session) -> float:
        """One round; the seconds until the next."""
        woken: set[int] = set()
        for gone in await self._find_gone(session):
            reach("before-rescue", session)
            woken |= await rescue(session, gone)
        reach("before-promote", session)
        due = await sql.promote_jobs(session, bite=BITE)
        promoted.inc(len(due))
        woken |= {row["lane"] for row in due}
        if woken:
            queues = await sql.queues_of(session, lanes=sorted(woken))
            await settler_sql.wake_queues(session, queues=[row["queue"] for row in queues])
        if len(due) == BITE:
            return 0.0
        if time.monotonic() > self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_EVERY
            await self._sweep(session)
        next_due = await sql.next_due.value(session)
        return TICK if next_due is None else min(TICK, max(next_due, 0.005))

    async def _find_gone(self, session: Session) -> list[int]:
        await sql.note_missing_locks.run(session, worker_id=self._worker_id)
        for row in await sql.declare_gone(session, worker_id=self._worker_id):
            expiries.labels(row["gone_why"]).inc()
            log.warning("a worker is gone", worker=row["name"], why=row["gone_why"])
        return [row["worker_id"] for row in await sql.gone_with_jobs(session)]

    async def _sweep(self, session: Session) -> None:
        """What nobody waits for."""
        await make_partitions(session)
        await sql.sweep_keys.run(session, bite=BITE)
        await sql.sweep_workers.run(session)


async def rescue(session: Session, gone_id: int) -> set[int]:
    """Take back what a lost worker had, bite by bite; the lanes to wake."""
    lanes: set[int] = set()
    while True:
        rows = await sql.rescue_jobs(session, gone_id=gone_id, bite=BITE, deaths_allowed=DEATHS_ALLOWED)
        for row in rows:
            rescued.labels(row["state"]).inc()
            lanes.add(row["lane"])
        cancelled = [row["id"] for row in rows if row["cancelling"]]
        if cancelled:
            await sql.cancel_rescued(session, ids=cancelled)
        if len(rows) < BITE:
            return lanes
