"""The heartbeat of a worker: renews its lease, brings it commands, and does its part of the fleet's maintenance.

It runs in a thread with an event loop and a connection of its own, so that neither busy handlers nor an exhausted pool can
starve it, and it holds the worker's session lock. When the main loop has not ticked for too long, the heartbeat stops on
purpose: a process that cannot work should not look alive. Maintenance (maintenance.py) comes in bounded batches on the same
connection.
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from penstock.database import Database, Session
from penstock.engine.fleet import heartbeat, hold_lock
from penstock.engine.maintenance import TICK, Maintenance
from penstock.engine.version import code_version
from penstock.errors import DatabaseTrouble, DatabaseUnreachable, ServerUnusable
from penstock.telemetry import log

FENCE_AT = 0.7  # of the lease: without a renewal for so long, the worker stops its own work
BLOCKED_AFTER = 3.0  # seconds without a tick of the main loop until its stack is logged
TROUBLE = (DatabaseTrouble, DatabaseUnreachable, ServerUnusable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


class Lease:
    """A worker's right to its jobs, as a deadline on this process's monotonic clock.

    Renewed by the heartbeat's thread, read by the worker's loop; a float is written in one piece.
    """

    def __init__(self, length: timedelta) -> None:
        self.length = length
        self._seconds = length.total_seconds()
        self._renewed_at = time.monotonic()

    def renew(self, sent_at: float) -> None:
        self._renewed_at = sent_at

    @property
    def must_stop(self) -> bool:
        """True when it is time to stop our own work: others may soon take it over."""
        return time.monotonic() - self._renewed_at > FENCE_AT * self._seconds


@dataclass(frozen=True)
class Commands:
    """The answer to a heartbeat: attempts to cancel, and whether there are quarantined jobs."""

    cancelling: list[tuple[int, int]]
    quarantined: bool


class Heartbeat:
    def __init__(
        self,
        database: Database,
        maintenance: Maintenance,
        lease: Lease,
        *,
        on_first: Callable[[], None],
        on_commands: Callable[[Commands], None],
        on_gone: Callable[[], None],
        load: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._database = database
        self._worker_id = maintenance.worker_id
        self._lease = lease
        self._on_first = on_first
        self._on_commands = on_commands
        self._on_gone = on_gone
        self._load = load
        self._main = asyncio.get_running_loop()
        self._main_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._end = threading.Event()
        self._woken: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._maintenance = maintenance
        self._stack_logged = False
        self.first = asyncio.Event()  # of the main loop: before the first heartbeat no job may be claimed
        self.ticked_at = time.monotonic()  # by the main loop
        self.draining = False
        self.exchange: Callable[[Session], Awaitable[float]] | None = None  # of permits, after each heartbeat

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Trigger an early heartbeat. Call from the main loop."""
        if self._loop is not None and self._woken is not None and not self._woken.is_set():
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._woken.set)

    async def stop(self) -> None:
        self._end.set()
        if self._loop is not None and self._woken is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself, because we were declared gone
                self._loop.call_soon_threadsafe(self._woken.set)
        await asyncio.to_thread(self._thread.join, 5)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._heartbeat_until_stopped())

    async def _heartbeat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        session: Session | None = None
        while not self._end.is_set():
            try:
                if session is None or session.is_closed():
                    session = await self._database.direct("heartbeat")
                    await hold_lock(session, self._worker_id)
                if not await self._heartbeat(session):
                    self._call_main(self._on_gone)
                    break
                wait = await self._maintain(session)
            except TROUBLE as error:
                log.warning("heartbeat failed", worker=self._worker_id, error=str(error))
                if session is not None:
                    session.terminate()
                wait = 0.1
            await self._pause(wait)
        if session is not None:
            session.terminate()

    async def _heartbeat(self, session: Session) -> bool:
        """False when we were declared gone."""
        blocked_for = time.monotonic() - self.ticked_at
        if blocked_for > BLOCKED_AFTER and not self._stack_logged:
            self._stack_logged = True
            log.error("the event loop is blocked", seconds=round(blocked_for, 1), stack=self._main_stack())
        elif blocked_for < 1:
            self._stack_logged = False
        if blocked_for > 0.5 * self._lease.length.total_seconds():
            return True  # no heartbeat: a process that cannot work must not look alive
        sent_at = time.monotonic()
        row = await heartbeat(session, self._worker_id, draining=self.draining, load=json.dumps(self._vitals()))
        if row is None:
            return False
        self._lease.renew(sent_at)
        if not self.first.is_set():
            self._call_main(self.first.set)
            self._call_main(self._on_first)
        cancelling = [json.loads(text) for text in row["cancelling"]]
        self._call_main(
            self._on_commands,
            Commands([(job["id"], job["attempt"]) for job in cancelling], quarantined=row["quarantined"]),
        )
        return True

    def _vitals(self) -> dict[str, Any]:
        """State of the process for `doctor` and `fleet`; cheap, as it is read twice a second."""
        pool = self._database.pool.state
        return self._load() | {
            "pool": pool.used,
            "pool_size": pool.size,
            "pool_waiting": pool.waiting,
            "notified": self._database.notifications.arriving,
            "code": code_version(self._database.settings),
        }

    async def _maintain(self, session: Session) -> float:
        """Maintenance that fails must not end the heartbeat."""
        try:
            wait = await self._maintenance.do(session)
            return min(wait, await self.exchange(session)) if self.exchange is not None else wait
        except TROUBLE:
            raise
        except Exception:  # noqa: BLE001  a defect, or a row of an unforeseen form
            log.exception("a chore failed", worker=self._worker_id)
            session.terminate()  # it may be in the middle of a transaction
            return TICK

    async def _pause(self, seconds: float) -> None:
        if self._woken is None or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        if not self._end.is_set():  # an early heartbeat was triggered
            self._woken.clear()

    def _call_main(self, callback: Callable[..., None], *arguments: Any) -> None:
        if not self._main.is_closed():
            self._main.call_soon_threadsafe(callback, *arguments)

    def _main_stack(self) -> str:
        frame = sys._current_frames().get(self._main_thread)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
