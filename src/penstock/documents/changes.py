"""Telling and noticing that something about documents has changed: a page or a display then looks again.

Whoever changes documents says so to the `Announcer`, which sends at most a few notifications a second for all of them. What the
engine does to a job is announced by its trigger. A notification is only a reason to look; where none arrive, waiting ends by
itself when there is a new event, and after a while in any case. The SQL is in changes.sql.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from penstock.database import Database, statements
from penstock.engine import Penstock
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log

sql = statements(__file__)

CHANNEL = "penstock_changed"
TELL_EVERY = 0.25  # seconds between notifications of one process
LOOK_EVERY = 1.0  # seconds between looks for a new event when notifications do not arrive


class Announcer:
    """Says that something has changed. One for each process; `tell` costs nothing."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._telling: asyncio.Task[None] | None = None
        self._pending = False
        self._told_at = 0.0
        self._closing = asyncio.Event()
        self.also: list[Callable[[], None]] = []  # who wants to know at once

    def tell(self) -> None:
        """Something has changed, and is committed."""
        for tell in self.also:
            tell()
        self._pending = True
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell(), name="announce")

    async def close(self) -> None:
        """Send what is pending, at once."""
        self._closing.set()
        if self._telling is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._telling

    async def _tell(self) -> None:
        while self._pending:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._told_at + TELL_EVERY - time.monotonic())
            self._pending = False
            self._told_at = time.monotonic()
            try:
                await self._app.database.pool.repeat(partial(sql.tell.run, channel=CHANNEL))
            except (DatabaseTrouble, DatabaseUnreachable) as error:
                log.debug("a change was not announced", error=str(error))


class Watch:
    """Waits for changes. Made by `watch_changes`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscription = database.notifications.subscribe(CHANNEL)
        self._last = -1

    async def wait(self, timeout: float) -> bool:
        """True when something has changed, as far as is known; False when the time is over. Look in both cases."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if self._database.notifications.arriving:
                if await self._subscription.wait(left):
                    return True
            elif await self._subscription.wait(min(left, LOOK_EVERY)) or await self._is_new():
                return True
        return False

    async def _is_new(self) -> bool:
        last: int = await self._database.pool.repeat(sql.last_event.value)
        before, self._last = self._last, last
        return before not in {-1, last}

    def close(self) -> None:
        self._subscription.close()


@asynccontextmanager
async def watch_changes(database: Database) -> AsyncIterator[Watch]:
    """A watch for as long as the block lasts; look once before the first wait."""
    watch = Watch(database)
    try:
        yield watch
    finally:
        watch.close()
