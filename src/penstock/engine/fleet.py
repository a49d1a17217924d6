"""The worker among the others: its row, its beat, and what every worker does for all (rescue, promote, sweep).

The beat runs in a thread with an event loop and a connection of its own, so that neither busy handlers nor an exhausted
pool can starve it. It holds the worker's session lock. When the worker's main loop has not ticked for too long, the beat
stops on purpose: a process that cannot work should not look alive. Chores come in bounded bites on the same connection.
The SQL is in fleet.sql.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg

from penstock import __version__, telemetry
from penstock.database import Database, Session, statements
from penstock.engine.history import make_partitions
from penstock.engine.lease import Lease
from penstock.engine.settler import sql as settler_sql
from penstock.engine.vitals import vitals
from penstock.errors import DatabaseTrouble, DatabaseUnreachable, ServerUnusable
from penstock.telemetry import log

sql = statements(__file__)

TICK = 0.5
BITE = 500
DEATHS_ALLOWED = 2
SWEEP_EVERY = 60.0
BLOCKED_AFTER = 3.0  # seconds without a tick of the main loop until its stack is logged
TROUBLE = (DatabaseTrouble, DatabaseUnreachable, ServerUnusable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)

expiries = telemetry.counter("penstock_workers_lost_total", "Workers that were declared gone by this one", ("why",))
rescued = telemetry.counter("penstock_jobs_rescued_total", "Jobs taken back from lost workers", ("to",))
promoted = telemetry.counter("penstock_jobs_promoted_total", "Jobs whose time had come")


@dataclass(frozen=True)
class Member:
    """How a worker presents itself."""

    queues: list[str]
    kinds: list[str]
    slots: int
    lease: timedelta
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True)
class Commands:
    """What a beat brings back."""

    cancelling: list[tuple[int, int]]
    suspects: bool


async def register(session: Session, member: Member) -> int:
    """Join the fleet; the number is the worker's identity until it leaves or is declared gone."""
    worker_id: int = await sql.register_worker.value(
        session,
        name=member.name,
        host=member.host,
        pid=member.pid,
        version=__version__,
        queues=member.queues,
        kinds=member.kinds,
        slots=member.slots,
        lease=member.lease,
    )
    return worker_id


async def leave(session: Session, worker_id: int) -> bool:
    """Go, owning nothing."""
    return await sql.leave.value(session, worker_id=worker_id) is not None


class Beat:
    """The sign of life of one worker."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        lease: Lease,
        *,
        on_first: Callable[[], None],
        on_commands: Callable[[Commands], None],
        on_gone: Callable[[], None],
        load: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._lease = lease
        self._on_first = on_first
        self._on_commands = on_commands
        self._on_gone = on_gone
        self._load = load
        self._main = asyncio.get_running_loop()
        self._main_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._end = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweep_at = 0.0
        self._stack_logged = False
        self.first = asyncio.Event()  # of the main loop: before the first beat no job may be claimed
        self.ticked_at = time.monotonic()  # by the main loop
        self.draining = False

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._end.set()
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself, because we were declared gone
                self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join, 5)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        session: Session | None = None
        while not self._end.is_set():
            try:
                if session is None or session.is_closed():
                    session = await self._database.direct("beat")
                    await sql.hold_lock.value(session, worker_id=self._worker_id)
                if not await self._beat(session):
                    self._tell(self._on_gone)
                    break
                wait = await self._do_chores(session)
            except TROUBLE as error:
                log.warning("beat failed", worker=self._worker_id, error=str(error))
                if session is not None:
                    session.terminate()
                wait = 0.1
            await self._pause(wait)
        if session is not None:
            session.terminate()

    async def _beat(self, session: Session) -> bool:
        """False when we were declared gone."""
        blocked_for = time.monotonic() - self.ticked_at
        if blocked_for > BLOCKED_AFTER and not self._stack_logged:
            self._stack_logged = True
            log.error("the event loop is blocked", seconds=round(blocked_for, 1), stack=self._main_stack())
        elif blocked_for < 1:
            self._stack_logged = False
        if blocked_for > 0.5 * self._lease.length.total_seconds():
            return True  # no beat: a process that cannot work must not look alive
        sent_at = time.monotonic()
        row = await sql.beat.first(
            session,
            worker_id=self._worker_id,
            draining=self.draining,
            load=json.dumps(self._load() | vitals(self._database)),
        )
        if row is None:
            return False
        self._lease.renew(sent_at)
        if not self.first.is_set():
            self._tell(self.first.set)
            self._tell(self._on_first)
        cancelling = [json.loads(text) for text in row["cancelling"]]
        self._tell(
            self._on_commands, Commands([(job["id"], job["attempt"]) for job in cancelling], suspects=row["suspects"])
        )
        return True

    async def _do_chores(self, session: Session) -> float:
        """What every worker does for all; the seconds until the next round."""
        woken: set[int] = set()
        for gone in await self._find_gone(session):
            woken |= await rescue(session, gone)
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
            await make_partitions(session)
            await sql.sweep_keys.run(session, bite=BITE)
            await sql.sweep_workers.run(session)
        next_due = await sql.next_due.value(session)
        return TICK if next_due is None else min(TICK, max(next_due, 0.005))

    async def _find_gone(self, session: Session) -> list[int]:
        await sql.note_missing_locks.run(session, worker_id=self._worker_id)
        for row in await sql.declare_gone(session, worker_id=self._worker_id):
            expiries.labels(row["gone_why"]).inc()
            log.warning("a worker is gone", worker=row["name"], why=row["gone_why"])
        return [row["worker_id"] for row in await sql.gone_with_jobs(session)]

    async def _pause(self, seconds: float) -> None:
        if self._stopping is None or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        if not self._main.is_closed():
            self._main.call_soon_threadsafe(callback, *arguments)

    def _main_stack(self) -> str:
        frame = sys._current_frames().get(self._main_thread)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


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
