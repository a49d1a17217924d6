"""`client.inbox`: where documents come from by themselves, and what became of the messages."""

import builtins
from collections.abc import AsyncIterator

from penstock.client._async.wire import AsyncWire
from penstock.client.decoding import decode, decode_list
from penstock.client.fleet_results import InboxMessage, Source


class AsyncInbox:
    """Sources by name, messages by number."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def sources(self) -> builtins.list[Source]:
        """The sources of one's own tenant."""
        return decode_list(Source, await self._wire.ask("GET", "/api/sources"))

    def messages(
        self, *, source: str | None = None, state: str | None = None, page: int = 100
    ) -> AsyncIterator[InboxMessage]:
        """Messages, by number; states: waiting, taken, failed."""
        wish = {"source": source, "state": state, "limit": page}
        return self._wire.pages("GET", "/api/messages", InboxMessage, query=wish)

    async def retry(self, id: int) -> InboxMessage:  # noqa: A002
        """Another chance for a failed message."""
        return decode(InboxMessage, await self._wire.ask("POST", "/api/messages/{message}/retry", at={"message": id}))
