"""Maintenance of the fleet: find lost workers, take their jobs back, promote what is due, sweep what is over.

Without a leader: each worker does it between its heartbeats, in bounded batches on the heartbeat's connection; rows that
another worker has locked are skipped. The history has one partition for each day, made ahead and dropped when it is old.
"""

import time
from datetime import timedelta

import asyncpg
from asyncpg import Record

from penstock import telemetry
from penstock.database import Session, statements
from penstock.engine.children import count_down, sweep_fanouts
from penstock.engine.claim import wake_lanes
from penstock.engine.failpoint import reach
from penstock.engine.limits.exchange import sweep_allotments
from penstock.engine.queue import cancel_idle
from penstock.engine.scheduler import Scheduler
from penstock.settings import Settings
from penstock.telemetry import log

sql = statements(__file__)

TICK = 0.5  # seconds between heartbeats, at most
DEATHS_ALLOWED = 2  # of workers that ran a quarantined job
SWEEP_EVERY = 60.0  # seconds
BATCH = 500
# Their rows live for seconds; `doctor` checks them for bloat, and `penstock db vacuum` cleans them.
HOT_TABLES = ("jobs", "job_keys", "workers", "checkpoints", "fanouts", "schedules", "limits", "allotments")

expiries = telemetry.counter(
    "penstock_workers_lost_total", "Workers that this one declared gone: their process or their lease ended", ("why",)
)
rescued = telemetry.counter(
    "penstock_jobs_rescued_total", "Jobs that this one took over from lost workers, to ready or dead", ("to",)
)
promoted = telemetry.counter("penstock_jobs_promoted_total", "Jobs that became ready at their time")


class Maintenance:
    """One worker's part of the maintenance."""

    def __init__(self, settings: Settings, worker_id: int, scheduler: Scheduler) -> None:
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
        due = await sql.promote_jobs(session, batch=BATCH)
        promoted.inc(len(due))
        woken |= {row["lane"] for row in due}
        await wake_lanes(session, woken)
        until_tick = await self._scheduler.do(session)
        if len(due) == BATCH or until_tick == 0.0:
            return 0.0
        if time.monotonic() > self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_EVERY
            await self._sweep(session)
        next_due = await sql.next_due.value(session)
        return min([TICK, *(max(wait, 0.005) for wait in (next_due, until_tick) if wait is not None)])

    async def _find_gone(self, session: Session) -> list[int]:
        for row in await declare_gone(session, self.worker_id):
            expiries.labels(row["gone_why"]).inc()
            await sql.end_sessions.run(session, gone_id=row["id"])  # of a frozen one: others would wait for its locks
        return [row["worker_id"] for row in await sql.gone_with_jobs(session)]

    async def _sweep(self, session: Session) -> None:
        await sweep_fanouts(session, BATCH)
        await sweep_allotments(session)
        if await self._sweeper.sweep(session):
            self._sweep_at = 0.0  # there is more: go on with the next heartbeat


async def declare_gone(session: Session, worker_id: int = 0) -> list[Record]:
    """Declare workers gone that have died or fallen silent, other than this one: id, name and reason of each."""
    await sql.note_missing_locks.run(session, worker_id=worker_id)
    gone = await sql.declare_gone(session, worker_id=worker_id)
    for row in gone:
        log.warning("a worker is gone", worker=row["name"], why=row["gone_why"])
    return gone


async def rescue(session: Session, gone_id: int) -> set[int]:
    """Take back what a lost worker had, batch by batch; the lanes to wake."""
    lanes: set[int] = set()
    while True:
        async with session.transaction():
            rows = await sql.rescue_jobs(session, gone_id=gone_id, batch=BATCH, deaths_allowed=DEATHS_ALLOWED)
            if cancelling := [row["id"] for row in rows if row["cancelling"]]:
                reason = "its worker was lost before it could obey"
                await cancel_idle(session, cancelling, reason)
            await count_down(session, [row["fanout"] for row in rows if row["cancelling"] or row["state"] == "dead"])
        for row in rows:
            rescued.labels(row["state"]).inc()
            lanes.add(row["lane"])
        if not rows:  # the worker that declared it gone did not get that far; the next round takes what is locked
            await sql.end_sessions.run(session, gone_id=gone_id)
        if len(rows) < BATCH:
            return lanes


# -- sweeping -----------------------------------------------------------------------------------------------------


class Sweeper:
    """Removes old history, expired keys, steps of jobs that are over, and workers long gone.

    It remembers how far it has come.
    """

    def __init__(self, settings: Settings, *, batch: int = BATCH) -> None:
        self._kept = settings.engine
        self._batch = batch
        self._after = 0  # the last job whose steps were checked in this pass

    async def sweep(self, session: Session) -> bool:
        """One round; True when there is more to do."""
        await make_partitions(session)
        swept = [
            self._batch if await drop_partition(session, self._kept.history_kept) else 0,
            await sweep_rest(session, self._kept.history_kept, self._batch),
            await sql.sweep_keys.value(session, batch=self._batch),
            await sql.sweep_shared_checkpoints.value(session, kept=self._kept.checkpoints_kept, batch=self._batch),
            await self._sweep_own_checkpoints(session),
        ]
        await sql.sweep_workers.run(session)
        return any(count >= self._batch for count in swept)

    async def _sweep_own_checkpoints(self, session: Session) -> int:
        """Check the next page; the number of steps in it."""
        row = await sql.sweep_own_checkpoints.first(session, after=self._after, batch=self._batch)
        if row is None or row["looked"] < self._batch:
            self._after = 0
            return 0
        self._after = row["last"]
        return self._batch


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


async def sweep_rest(session: Session, kept: timedelta, batch: int) -> int:
    """Delete a batch of old rows that are in no day's partition; how many."""
    swept: int = await sql.sweep_rest.value(session, kept=kept, batch=batch)
    return swept


async def _change(session: Session, statement: str) -> bool:
    """Change one day in a transaction of its own; the worker that has the lock does it for all."""
    try:
        async with session.transaction():
            # A long reader of the history must not stop the fleet.
            await session.execute("set local lock_timeout = '2s'")
            if not await sql.try_partition_lock.value(session):
                return False
            await session.execute(statement)
    except (
        asyncpg.InsufficientPrivilegeError,  # the owner's role must do it: see database_owner_url
        asyncpg.LockNotAvailableError,
        asyncpg.CheckViolationError,  # the rest has rows of that day already, and takes the new ones, too
        asyncpg.DuplicateTableError,
        asyncpg.UndefinedTableError,  # dropped by another worker a moment ago
        asyncpg.WrongObjectTypeError,  # attached by another worker a moment ago
    ) as error:
        log.debug("a partition of the history was not changed", error=str(error))
        return False
    return True
