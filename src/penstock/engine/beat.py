"""The sign of life of a worker.

The beat runs in a thread with an event loop and a connection of its own, so that neither busy handlers nor an exhausted
pool can starve it. It holds the worker's session lock. When the worker's main loop has not ticked for too long, the beat
stops on purpose: a process that cannot work should not look alive. The chores of every worker (chores.py) come in bounded
bites on the same connection. The SQL is in fleet.sql.
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
from typing import Any

import asyncpg

from penstock.database import Database, Session
from penstock.engine.chores import TICK, Chores
from penstock.engine.fleet import sql
from penstock.engine.lease import Lease
from penstock.engine.vitals import vitals
from penstock.errors import DatabaseTrouble, DatabaseUnreachable, ServerUnusable
from penstock.telemetry import log

BLOCKED_AFTER = 3.0  # seconds without a tick of the main loop until its stack is logged
TROUBLE = (DatabaseTrouble, DatabaseUnreachable, ServerUnusable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


@dataclass(frozen=True)
class Commands:
    """What a beat brings back."""

    cancelling: list[tuple[int, int]]
    suspects: bool


class Beat:
    """The sign of life of one worker."""

    def __init__(
        self,
        database: Database,
        chores: Chores,
        lease: Lease,
        *,
        on_first: Callable[[], None],
        on_commands: Callable[[Commands], None],
        on_gone: Callable[[], None],
        load: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._database = database
        self._worker_id = chores.worker_id
        self._lease = lease
        self._on_first = on_first
        self._on_commands = on_commands
        self._on_gone = on_gone
        self._load = load
        self._main = asyncio.get_running_loop()
        self._main_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._end = threading.Event()
        self._woken: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._chores = chores
        self._stack_logged = False
        self.first = asyncio.Event()  # of the main loop: before the first beat no job may be claimed
        self.ticked_at = time.monotonic()  # by the main loop
        self.draining = False
        self.exchange: Callable[[Session], Awaitable[float]] | None = None  # of permits, after each beat

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Beat now, as it were; from the main loop."""
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
            runner.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
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
        """A chore that cannot be done must not end the sign of life."""
        try:
            wait = await self._chores.do(session)
            return min(wait, await self.exchange(session)) if self.exchange is not None else wait
        except TROUBLE:
            raise
        except Exception:  # noqa: BLE001  a fault of ours, or of a row that nobody foresaw
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
        if not self._end.is_set():  # somebody is in a hurry
            self._woken.clear()

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        if not self._main.is_closed():
            self._main.call_soon_threadsafe(callback, *arguments)

    def _main_stack(self) -> str:
        frame = sys._current_frames().get(self._main_thread)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
