"""The client: search, status, health and events, and the resources as attributes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from penstock.client._async.documents import AsyncDocuments, AsyncPackets
from penstock.client._async.resources import (
    AsyncCollections,
    AsyncCrawls,
    AsyncFacts,
    AsyncFleet,
    AsyncInbox,
    AsyncJobs,
    AsyncKeys,
    AsyncStreams,
)
from penstock.client._async.transport import AsyncTransport
from penstock.client.errors import Trouble, Unreachable
from penstock.client.fleet_models import Changed, Health, Status
from penstock.client.models import Found, decode
from penstock.client.transport import Address, EventLines, Patience, async_sleep

SILENCE = 45.0  # seconds: three of the server's signs of life


class AsyncClient:
    """A client of one server with one key, by default those of PENSTOCK_URL and PENSTOCK_KEY.

    `timeout` holds for each piece that is sent or received, `deadline` for a whole call with all of its attempts.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        deadline: float = 60.0,
        tries: int = 6,
    ) -> None:
        self._transport = AsyncTransport(
            Address.of(url, key), Patience(timeout=timeout, deadline=deadline, tries=tries)
        )
        self.collections = AsyncCollections(self._transport)
        self.documents = AsyncDocuments(self._transport)
        self.packets = AsyncPackets(self._transport)
        self.crawls = AsyncCrawls(self._transport)
        self.facts = AsyncFacts(self._transport)
        self.jobs = AsyncJobs(self._transport)
        self.keys = AsyncKeys(self._transport)
        self.fleet = AsyncFleet(self._transport)
        self.inbox = AsyncInbox(self._transport)
        self.streams = AsyncStreams(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.address.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def search(  # noqa: PLR0913  each has its place in the request
        self,
        question: str,
        *,
        collection: str | Sequence[str] | None = None,
        k: int = 10,
        offset: int = 0,
        mode: str = "hybrid",
        metadata: Mapping[str, Any] | None = None,
        media_type: str | Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        neighbours: int = 0,
    ) -> Found:
        """The passages that answer best."""
        wish = {
            "q": question,
            "collection": collection if collection is None or isinstance(collection, str) else list(collection),
            "k": k,
            "offset": offset,
            "mode": mode,
            "metadata": metadata,
            "type": media_type if media_type is None or isinstance(media_type, str) else list(media_type),
            "since": since,
            "until": until,
            "neighbours": neighbours,
        }
        return decode(Found, await self._transport.ask("GET", "/api/search", query=wish))

    async def status(self, *, collection: str | None = None) -> Status:
        """Counts, workers, findings, and documents that could not be read."""
        return decode(Status, await self._transport.ask("GET", "/api/status", query={"collection": collection}))

    async def live(self) -> Health:
        """The process answers."""
        return decode(Health, await self._transport.ask("GET", "/health/live", again=False))

    async def ready(self) -> Health:
        """Whether the server can work; if not, the reasons, not an error."""
        try:
            return decode(Health, await self._transport.ask("GET", "/health/ready", again=False))
        except Trouble as error:
            if isinstance(error.answer, Mapping) and "problems" in error.answer:
                return decode(Health, error.answer)
            raise

    async def events(self) -> AsyncIterator[Changed]:
        """One event at the beginning, then one for each change or burst; it reconnects by itself.

        It ends when the caller leaves it; Unreachable if the server stays away for longer than `deadline`.
        """
        lines = EventLines()
        attempts = self._transport.attempts("GET")
        while True:
            came = False
            try:
                async with self._transport.stream("GET", "/api/events", attempts=attempts, timeout=SILENCE) as response:
                    async for line in self._transport.lines(response):
                        if lines.feed(line) == "changed":
                            came = True
                            attempts.renew()
                            yield Changed()
                if not came:
                    raise Unreachable("The stream of events ended before the first one.")  # noqa: TRY301
                pause = lines.retry  # the server has ended it: it stops, or restarts
            except Unreachable as error:
                pause = attempts.pause_after(error)
            lines.clear()
            await async_sleep(pause)
