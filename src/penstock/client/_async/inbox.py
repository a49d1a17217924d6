"""`client.inbox`: where documents come from by themselves, messages for a webhook, and what became of them."""

import builtins
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from penstock.client._async.wire import AsyncWire
from penstock.client.content import content_of
from penstock.client.decoding import decode, decode_list
from penstock.client.fleet_results import InboxMessage, Source
from penstock.client.results import Sent
from penstock.client.signing import sign_message


class AsyncInbox:
    """Sources by name, messages by number. What is sent to a webhook is signed, and needs no key."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def send(self, source: str, message: Mapping[str, Any], *, secret: str, message_id: str = "") -> Sent:
        """Send a message. Its number is `message_id`, else what it says itself; the same one again changes nothing."""
        if not message_id.isascii() or not message_id.isprintable():
            raise ValueError("message_id is sent as a header, which is ASCII: put such a number into the message.")
        body = json.dumps(message).encode()
        sent = await self._wire.ask(
            "POST",
            "/api/inbox/{source}",
            at={"source": source},
            headers={**sign_message(secret, message_id, body), "Content-Type": "application/json"},
            content=content_of(body),
            again=True,
        )
        return decode(Sent, sent)

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
