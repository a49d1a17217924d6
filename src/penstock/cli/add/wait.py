"""Follows documents, their attachments and archive members until they are ready or failed; works on them if no worker does.

It is woken by notifications, and polls now and then. A poll is at most four statements, however many documents there are, and
polls become rarer when they take long.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable

from penstock.cli.add.helper_worker import HelperWorker
from penstock.cli.add.progress import DELETED, OPEN, READY, AddProgress, Entry
from penstock.database import Session, statements
from penstock.documents import watch_changes
from penstock.engine import is_served
from penstock.errors import DatabaseTrouble
from penstock.product import Product

sql = statements(__file__)

KIND = "prepare_document"
POLL_EVERY = 0.5  # seconds, without a notification
POLL_AGAIN = 0.03  # seconds: so soon when something has just changed, and the end may be near
REFRESH = 0.25  # seconds between two polls while much is open
REST = 5  # times as long as the poll took, so that the display does not load the database
MOST_REST = 2.0  # seconds
SERVED_EVERY = 2.0


class Watcher:
    def __init__(
        self,
        product: Product,
        progress: AddProgress,
        show: Callable[[], None],
        say: Callable[[str], None],
        helper: HelperWorker | None = None,
    ) -> None:
        self._product = product
        self._progress = progress
        self._show = show
        self._say = say
        self._helper = helper
        self._working: asyncio.Task[None] | None = None
        self._served_at = time.monotonic()
        self._changed_at = time.monotonic()

    async def is_served(self) -> bool:
        return await self._product.app.database.pool.repeat(is_served, KIND)

    def work(self) -> None:
        """Work in this process until `stop`."""
        self._say("No worker is running: working here until it is done.")
        self._working = asyncio.create_task(self._work(), name="work here")

    async def _work(self) -> None:
        """Work in this process, and for many files in another one: one interpreter cannot use two cores."""
        if self._helper is None:
            await self._product.app.work(concurrency=self._product.slots)
            return
        lent = self._product.settings.extraction.children // 2
        async with self._product.sandboxes.lend(lent), asyncio.TaskGroup() as group:
            group.create_task(self._product.app.work(concurrency=self._product.slots))
            group.create_task(self._helper.work(children=max(lent, 1)))

    @property
    def working(self) -> bool:
        return self._working is not None

    async def until_settled(self, adding: "asyncio.Task[None]") -> None:
        """Wait until everything is added and no document is open."""
        async with watch_changes(self._product.app.database) as changed:
            while True:
                last_poll = adding.done()
                began = time.monotonic()
                try:
                    await self.poll()
                    await self._keep_served()
                except DatabaseTrouble:
                    last_poll = False  # it passes: poll again
                self._show()
                if last_poll and not self._progress.open:
                    return
                await asyncio.sleep(self._rest(time.monotonic() - began))
                await changed.wait(min(POLL_EVERY, max(POLL_AGAIN, time.monotonic() - self._changed_at)))

    def _rest(self, took: float) -> float:
        """Seconds to the next poll, not beyond the estimated end: on a busy machine a poll takes long, and so would this."""
        left = self._progress.seconds_left
        return min(max(REST * took, REFRESH), MOST_REST, REFRESH if left is None else left)

    async def poll(self) -> None:
        ids = list(self._progress.open)
        if not ids:
            return

        async def read(session: Session) -> tuple[list[Entry], list[tuple[int, str, str | None, int]], Counter[str]]:
            settled = await sql.settled(session, ids=ids)
            parents = [row["id"] for row in settled if row["state"] == READY]
            members = await sql.members_of(session, ids=parents) if parents else []
            steps = await sql.steps_of(session, ids=ids)
            return (
                [Entry(row["name"], "member", row["id"], parent=row["parent_id"]) for row in members],
                [(row["id"], row["state"], row["error"], row["gaps"]) for row in settled],
                Counter({row["step"]: row["count"] for row in steps}),
            )

        members, settled, self._progress.steps = await self._product.app.database.pool.repeat(read)
        if settled:
            self._changed_at = time.monotonic()
        for facts in settled:
            self._progress.finish(*facts)
        for member in members:
            self._progress.note(member)

    async def _keep_served(self) -> None:
        """Start a worker here when the other one has ended; report the failure of our own."""
        if self._working is not None:
            if self._working.done():
                await self._working
                self.work()
            return
        if self._progress.open and time.monotonic() - self._served_at > SERVED_EVERY:
            self._served_at = time.monotonic()
            if not await self.is_served():
                self.work()

    async def stop(self) -> None:
        """Stop our worker, which requeues its jobs."""
        if self._working is not None:
            self._working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    async def others_waiting(self) -> int:
        """Count the documents of others that have no worker after this command, to 10,000."""
        ids = [entry.id for entry in self._progress.entries if entry.id is not None and entry.status in (OPEN, DELETED)]
        waiting = await self._product.app.database.pool.repeat(sql.others_waiting.value, ids=ids)
        return int(waiting)
