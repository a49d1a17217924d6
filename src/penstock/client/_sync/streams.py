# Made from ../_async/streams.py by `python -m tests.client.unasync`: change that one.
"""`client.streams`: messages of conversations, and the memos that are made of them."""

import builtins
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.client._sync.wire import Wire
from penstock.client.content import content_of
from penstock.client.decoding import decode, decode_list
from penstock.client.memo_results import Memo, PostedMessages, Stream, StreamMessage


class Streams:
    """Streams by name."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def post(self, stream: str, messages: Sequence[Mapping[str, Any]]) -> PostedMessages:
        """Add messages in their order: `text`, and `message_id`, `author`, `at`. A request that is sent again adds nothing.

        One without a message_id gets one here. QueueFull while too many of the stream wait.
        """
        body = {"messages": [{"message_id": os.urandom(16).hex(), **message} for message in messages]}
        posted = self._wire.ask(
            "POST",
            "/api/streams/{stream}/messages",
            at={"stream": stream},
            headers={"Content-Type": "application/json"},
            content=content_of(json.dumps(body, default=str).encode()),
            again=True,
        )
        return decode(PostedMessages, posted)

    def list(self, *, page: int = 100) -> Iterator[Stream]:
        """Streams by name."""
        return self._wire.pages("GET", "/api/streams", Stream, query={"limit": page})

    def show(self, stream: str) -> Stream:
        """One stream, and in `why` where its next batch is."""
        return decode(Stream, self._wire.ask("GET", "/api/streams/{stream}", at={"stream": stream}))

    def messages(self, stream: str, *, page: int = 100) -> Iterator[StreamMessage]:
        """Its messages by number."""
        return self._wire.pages(
            "GET", "/api/streams/{stream}/messages", StreamMessage, at={"stream": stream}, query={"limit": page}
        )

    def delete(self, stream: str) -> None:
        """Delete it with its messages and memos."""
        self._wire.ask("DELETE", "/api/streams/{stream}", at={"stream": stream})

    def delete_message(self, stream: str, number: int) -> None:
        """Delete a message, and the memos that were made of it alone."""
        where = {"stream": stream, "number": number}
        self._wire.ask("DELETE", "/api/streams/{stream}/messages/{number}", at=where)

    def memos(self, stream: str | None = None, *, every: bool = False, page: int = 100) -> Iterator[Memo]:
        """Memos by number; `every`: also those that were merged or superseded."""
        wish = {"stream": stream, "every": every or None, "limit": page}
        return self._wire.pages("GET", "/api/memos", Memo, query=wish)

    def search(
        self, question: str, *, stream: str | None = None, k: int = 10, every: bool = False
    ) -> builtins.list[Memo]:
        """The memos that answer best."""
        wish = {"q": question, "stream": stream, "k": k, "every": every or None}
        found = self._wire.ask("GET", "/api/memos", query=wish)
        return decode_list(Memo, found.get("items") if isinstance(found, Mapping) else None)
