# Made from ../_async/inbox.py by `python -m tests.client.unasync`: change that one.
"""`client.inbox`: where documents come from by themselves, and what became of the messages."""

import builtins
from collections.abc import Iterator

from penstock.client._sync.wire import Wire
from penstock.client.decoding import decode, decode_list
from penstock.client.fleet_results import InboxMessage, Source


class Inbox:
    """Sources by name, messages by number."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def sources(self) -> builtins.list[Source]:
        """The sources of one's own tenant."""
        return decode_list(Source, self._wire.ask("GET", "/api/sources"))

    def messages(
        self, *, source: str | None = None, state: str | None = None, page: int = 100
    ) -> Iterator[InboxMessage]:
        """Messages, by number; states: waiting, taken, failed."""
        wish = {"source": source, "state": state, "limit": page}
        return self._wire.pages("GET", "/api/messages", InboxMessage, query=wish)

    def retry(self, id: int) -> InboxMessage:  # noqa: A002
        """Another chance for a failed message."""
        return decode(InboxMessage, self._wire.ask("POST", "/api/messages/{message}/retry", at={"message": id}))
