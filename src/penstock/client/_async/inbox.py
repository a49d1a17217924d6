"""`client.inbox`: messages for a webhook, which are signed and need no key."""

import json
from collections.abc import Mapping
from typing import Any

from penstock.client._async.wire import AsyncWire
from penstock.client.content import content_of
from penstock.client.decoding import decode
from penstock.client.results import Sent
from penstock.client.signing import sign_message


class AsyncInbox:
    """Sources by name."""

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
