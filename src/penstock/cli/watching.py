"""Waits until documents are ready or failed, members of mails and archives among them; works on them itself if nobody does.

Woken by notification, with a look now and then as the fallback. A look is at most four statements, however many documents
there are, and the looks become rarer when they take long. The SQL is in watching.sql.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable

from penstock.cli.beside import Beside
from penstock.cli.tally import DELETED, OPEN, READY, Entry, Tally
from penstock.database import Session, statements
from penstock.documents.changes import watch_changes
from penstock.errors import DatabaseTrouble
from penstock.pipelines import Product

sql = statements(__file__)

KIND = "prepare_document"
LOOK_EVERY = 0.5  # seconds, without a notification
LOOK_AGAIN = 0.03  # seconds: so soon when something has just changed, and the end may be near
REFRESH = 0.25  # seconds between two looks while much is open
REST = 5  # times as long as the look took: how busy the display may keep the database
MOST_REST = 2.0  # seconds
SERVED_EVERY = 2.0


class Watcher:
    """Follows the open documents of a tally."""

    def __init__(
        self,
        product: Product,
        tally: Tally,
        show: Callable[[], None],
        say: Callable[[str], None],
        beside: Beside | None = None,
    ) -> None:
        self._product = product
        self._tally = tally
        self._show = show
        self._say = say
        self._beside = beside
        self._working: asyncio.Task[None] | None = None
        self._served_at = time.monotonic()
        self._changed_at = time.monotonic()

    async def is_served(self) -> bool:
        served = await self._product.app.database.pool.repeat(lambda session: sql.is_served.value(session, kind=KIND))
        return bool(served)

    def work(self) -> None:
        """Be the worker until `stop`."""
        self._say("No worker is running: working here until it is done.")
        self._working = asyncio.create_task(self._work(), name="work here")

    async def _work(self) -> None:
        """In this process; for many files also in another one: two processors need more than one interpreter's lock."""
        if self._beside is None:
            await self._product.app.work(concurrency=self._product.slots)
            return
        lent = self._product.settings.extraction.children // 2
        async with self._product.boxes.lend(lent), asyncio.TaskGroup() as group:
            group.create_task(self._product.app.work(concurrency=self._product.slots))
            group.create_task(self._beside.work(children=max(lent, 1)))

    @property
    def working(self) -> bool:
        return self._working is not None

    async def until_settled(self, adding: "asyncio.Task[None]") -> None:
        """Returns when everything is added and nothing of it is open any more."""
        async with watch_changes(self._product.app.database) as changed:
            while True:
                last_look = adding.done()
                began = time.monotonic()
                try:
                    await self.look()
                    await self._keep_served()
                except DatabaseTrouble:
                    last_look = False  # it passes: look again
                self._show()
                if last_look and not self._tally.open:
                    return
                await asyncio.sleep(self._rest(time.monotonic() - began))
                await changed.wait(min(LOOK_EVERY, max(LOOK_AGAIN, time.monotonic() - self._changed_at)))

    def _rest(self, took: float) -> float:
        """Not beyond the end, as far as it can be foreseen: on a busy machine a look takes long, and so would its rest."""
        left = self._tally.seconds_left
        return min(max(REST * took, REFRESH), MOST_REST, REFRESH if left is None else left)

    async def look(self) -> None:
        """Bring the tally up to date."""
        ids = list(self._tally.open)
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

        members, settled, self._tally.steps = await self._product.app.database.pool.repeat(read)
        if settled:
            self._changed_at = time.monotonic()
        for facts in settled:
            self._tally.settle(*facts)
        for member in members:
            self._tally.note(member)

    async def _keep_served(self) -> None:
        """The worker that we rely on may end; ours may have failed, which must not look like patience."""
        if self._working is not None:
            if self._working.done():
                await self._working
                self.work()
            return
        if self._tally.open and time.monotonic() - self._served_at > SERVED_EVERY:
            self._served_at = time.monotonic()
            if not await self.is_served():
                self.work()

    async def stop(self) -> None:
        """What our worker has taken of others goes back at once."""
        if self._working is not None:
            self._working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    async def others_waiting(self) -> int:
        """Documents of others that nobody will work on after us; counted to 10,000."""
        ids = [entry.id for entry in self._tally.entries if entry.id is not None and entry.status in (OPEN, DELETED)]
        waiting = await self._product.app.database.pool.repeat(
            lambda session: sql.others_waiting.value(session, ids=ids)
        )
        return int(waiting)
