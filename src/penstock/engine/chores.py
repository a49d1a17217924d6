"""What every worker does for all: find the lost, take their jobs back, promote what is due, sweep what is over.

There is no leader. Each worker does these chores between its beats, in bounded bites on the beat's connection; rows that
another one has locked are skipped. The SQL is in chores.sql.
"""

import time

from penstock import telemetry
from penstock.database import Session, statements
from penstock.engine.failpoint import reach
from penstock.engine.family import count_down, sweep_families
from penstock.engine.lanes import wake_lanes
from penstock.engine.permits import sql as permits_sql
from penstock.engine.queue import sql as queue_sql
from penstock.engine.scheduler import Scheduler
from penstock.engine.sweep import Sweeper
from penstock.settings import Settings
from penstock.telemetry import log

sql = statements(__file__)

TICK = 0.5
BITE = 500
DEATHS_ALLOWED = 2
SWEEP_EVERY = 60.0

expiries = telemetry.counter(
    "penstock_workers_lost_total", "Workers that this one declared gone: their process or their lease ended", ("why",)
)
rescued = telemetry.counter(
    "penstock_jobs_rescued_total", "Jobs that this one took back from lost workers, to ready or dead", ("to",)
)
promoted = telemetry.counter("penstock_jobs_promoted_total", "Jobs whose time had come")


class Chores:
    """The chores of one worker."""

    def __init__(self, settings: Settings, worker_id: int, scheduler: Scheduler) -> None:
        self._settings = settings
        self.worker_id = worker_id
        self._scheduler = scheduler
        self._sweeper = Sweeper(settings)
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
        await wake_lanes(session, woken)
        until_tick = await self._scheduler.do(session)
        if len(due) == BITE or until_tick == 0.0:
            return 0.0
        if time.monotonic() > self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_EVERY
            await self._sweep(session)
        next_due = await sql.next_due.value(session)
        return min([TICK, *(max(wait, 0.005) for wait in (next_due, until_tick) if wait is not None)])

    async def _find_gone(self, session: Session) -> list[int]:
        await sql.note_missing_locks.run(session, worker_id=self.worker_id)
        for row in await sql.declare_gone(session, worker_id=self.worker_id):
            expiries.labels(row["gone_why"]).inc()
            log.warning("a worker is gone", worker=row["name"], why=row["gone_why"])
            await sql.end_sessions.run(session, gone_id=row["id"])  # of a frozen one: others would wait for its locks
        return [row["worker_id"] for row in await sql.gone_with_jobs(session)]

    async def _sweep(self, session: Session) -> None:
        """What nobody waits for."""
        await sweep_families(session, BITE)
        await permits_sql.sweep_allotments.run(session)
        if await self._sweeper.sweep(session):
            self._sweep_at = 0.0  # there is more: go on with the next beat


async def rescue(session: Session, gone_id: int) -> set[int]:
    """Take back what a lost worker had, bite by bite; the lanes to wake."""
    lanes: set[int] = set()
    while True:
        async with session.transaction():
            rows = await sql.rescue_jobs(session, gone_id=gone_id, bite=BITE, deaths_allowed=DEATHS_ALLOWED)
            if cancelling := [row["id"] for row in rows if row["cancelling"]]:
                reason = "its worker was lost before it could obey"
                await queue_sql.cancel_idle(session, ids=cancelling, outcome="cancelled", reason=reason)
            await count_down(session, [row["fanout"] for row in rows if row["cancelling"] or row["state"] == "dead"])
        for row in rows:
            rescued.labels(row["state"]).inc()
            lanes.add(row["lane"])
        if not rows:  # who declared it gone did not get that far; the next round will have what is locked
            await sql.end_sessions.run(session, gone_id=gone_id)
        if len(rows) < BITE:
            return lanes
