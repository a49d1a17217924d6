# Made from ../_async/client.py by `python -m tests.client.unasync`: change that one.
"""The client: search, status, health and events, and the resources as attributes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from penstock.client._sync.documents import Documents, Packets
from penstock.client._sync.resources import (
    Collections,
    Crawls,
    Facts,
    Fleet,
    Inbox,
    Jobs,
    Keys,
    Streams,
)
from penstock.client._sync.transport import Transport
from penstock.client.errors import Trouble, Unreachable
from penstock.client.fleet_models import Changed, Health, Status
from penstock.client.models import Found, decode
from penstock.client.transport import Address, EventLines, Patience, sleep

SILENCE = 45.0  # seconds: three of the server's signs of life


class Client:
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
        self._transport = Transport(Address.of(url, key), Patience(timeout=timeout, deadline=deadline, tries=tries))
        self.collections = Collections(self._transport)
        self.documents = Documents(self._transport)
        self.packets = Packets(self._transport)
        self.crawls = Crawls(self._transport)
        self.facts = Facts(self._transport)
        self.jobs = Jobs(self._transport)
        self.keys = Keys(self._transport)
        self.fleet = Fleet(self._transport)
        self.inbox = Inbox(self._transport)
        self.streams = Streams(self._transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.address.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def search(  # noqa: PLR0913  each has its place in the request
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
        return decode(Found, self._transport.ask("GET", "/api/search", query=wish))

    def status(self, *, collection: str | None = None) -> Status:
        """Counts, workers, findings, and documents that could not be read."""
        return decode(Status, self._transport.ask("GET", "/api/status", query={"collection": collection}))

    def live(self) -> Health:
        """The process answers."""
        return decode(Health, self._transport.ask("GET", "/health/live", again=False))

    def ready(self) -> Health:
        """Whether the server can work; if not, the reasons, not an error."""
        try:
            return decode(Health, self._transport.ask("GET", "/health/ready", again=False))
        except Trouble as error:
            if isinstance(error.answer, Mapping) and "problems" in error.answer:
                return decode(Health, error.answer)
            raise

    def events(self) -> Iterator[Changed]:
        """One event at the beginning, then one for each change or burst; it reconnects by itself.

        It ends when the caller leaves it; Unreachable if the server stays away for longer than `deadline`.
        """
        lines = EventLines()
        attempts = self._transport.attempts("GET")
        while True:
            came = False
            try:
                with self._transport.stream("GET", "/api/events", attempts=attempts, timeout=SILENCE) as response:
                    for line in self._transport.lines(response):
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
            sleep(pause)
