"""`/api/events`: server-sent events named `changed`. Clients then read what has changed.

All clients of a process share one watch, so that a client costs the database nothing. An event is sent at once when things
change after a quiet time, and then at most twice a second, however much happens. The streams end as soon as the server
stops: without that, it would wait for them.
"""

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from penstock.database import Database, all_tenants
from penstock.documents import watch_changes
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log
from penstock.web.dependencies import Reads
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api/events", tags=["events"], responses=RESPONSES)

KEEP_ALIVE = 15  # seconds: below the patience of proxies
AGAIN_AFTER = 0.5  # seconds between two events, at least


class Changes:
    """Reports changes to all clients of this process; it watches only while there are some."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clients: set[asyncio.Event] = set()
        self._watching: asyncio.Task[None] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End all streams: the server stops."""
        self._stopped = True
        self._wake()

    async def tell(self) -> AsyncIterator[ServerSentEvent]:
        """One event at the beginning, after which nothing is missed, and one for each change or burst of changes."""
        news = asyncio.Event()
        self._clients.add(news)
        if self._watching is None or self._watching.done():
            with all_tenants():  # it watches for all clients, not only for the first
                self._watching = asyncio.create_task(self._watch(), name="changes")
        try:
            while not self._stopped:
                news.clear()
                yield ServerSentEvent(event="changed", data="", retry=2000)
                await news.wait()
        finally:
            self._clients.discard(news)
            if not self._clients and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self) -> None:
        async with watch_changes(self._database) as watch:
            while True:
                try:
                    changed = await watch.wait(KEEP_ALIVE)
                except (DatabaseTrouble, DatabaseUnreachable) as error:
                    log.debug("changes cannot be watched just now", error=str(error))
                    changed = False
                if changed:
                    self._wake()
                await asyncio.sleep(AGAIN_AFTER)  # changes in the meantime become one event

    def _wake(self) -> None:
        for news in self._clients:
            news.set()


@routes.get(
    "",
    response_class=EventSourceResponse,
    responses={200: {"description": "A stream without an end", "content": {"text/event-stream": {}}}},
)
async def stream_events(_: Reads, request: Request) -> EventSourceResponse:
    """The event `changed`, whenever documents or collections have changed."""
    changes: Changes = request.app.state.changes
    return EventSourceResponse(changes.tell(), ping=KEEP_ALIVE)
