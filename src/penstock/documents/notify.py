"""Notifications that documents have changed, so that pages and progress displays read them again.

The code that changes documents reports it to the `Notifier` of its process, which sends at most four notifications a second.
Those about jobs are sent by a trigger. A notification only says that reading again is worth it: where none arrive, a `Watch`
polls for a new event.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.database import Database, statements
from penstock.engine import Penstock
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log

sql = statements(__file__)

CHANNEL = "penstock_changed"
NOTIFY_EVERY = 0.25  # seconds between notifications of one process
POLL_EVERY = 1.0  # seconds, when notifications do not arrive


class Notifier:
    """Sends notifications. One for each process; `notify` costs nothing."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._sending: asyncio.Task[None] | None = None
        self._pending = False
        self._sent_at = 0.0
        self._closing = asyncio.Event()
        self.listeners: list[Callable[[], None]] = []  # in this process, called at once

    def notify(self) -> None:
        """Note that something has changed and is committed."""
        for listener in self.listeners:
            listener()
        self._pending = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="notify")

    async def close(self) -> None:
        """Send what is pending, at once."""
        self._closing.set()
        if self._sending is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._sending

    async def _send(self) -> None:
        while self._pending:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._sent_at + NOTIFY_EVERY - time.monotonic())
            self._pending = False
            self._sent_at = time.monotonic()
            try:
                await self._app.database.pool.repeat(sql.notify.run, channel=CHANNEL)
            except (DatabaseTrouble, DatabaseUnreachable) as error:
                log.debug("a change was not announced", error=str(error))


class Watch:
    """Waits for changes. Made by `watch_changes`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscription = database.notifications.subscribe(CHANNEL)
        self._last = -1

    async def wait(self, timeout: float) -> bool:
        """True when something may have changed, False when the time is over. Read again in both cases."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if self._database.notifications.arriving:
                if await self._subscription.wait(left):
                    return True
            elif await self._subscription.wait(min(left, POLL_EVERY)) or await self._is_new():
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
    """A watch for as long as the block lasts; read once before the first wait."""
    watch = Watch(database)
    try:
        yield watch
    finally:
        watch.close()
