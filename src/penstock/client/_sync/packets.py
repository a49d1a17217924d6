# Made from ../_async/packets.py by `python -m tests.client.unasync`: change that one.
"""`client.packets`: documents that belong together."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.client._sync.wire import Wire
from penstock.client.content import Form, Source, content_of
from penstock.client.decoding import decode
from penstock.client.results import AcceptedPacket, Packet, Why


class Packets:
    """Packets by number. The consolidated PDF and its pages are those of the document of the same number."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def put(
        self,
        collection: str,
        name: str,
        files: Mapping[str, Source],
        *,
        replace: bool = False,
        require_all: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AcceptedPacket:
        """Send the files of a packet by name, in their order. NameTaken, unless `replace`."""
        form = Form({key: content_of(source) for key, source in files.items()}, os.urandom(16).hex())
        made = self._wire.ask(
            "POST",
            "/api/packets",
            query={
                "collection": collection,
                "name": name,
                "replace": replace or None,
                "require_all": require_all,
                "metadata": metadata,
            },
            headers={"Content-Type": form.type},
            content=form,
        )
        return decode(AcceptedPacket, made)

    def put_list(
        self,
        collection: str,
        name: str,
        documents: Sequence[Mapping[str, str]],
        *,
        replace: bool = False,
        require_all: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        message_id: str | None = None,
    ) -> AcceptedPacket:
        """Let the server fetch the documents: each has a `url` or base64 `content`, and a `name`."""
        wish = {
            "collection": collection,
            "name": name,
            "documents": [dict(each) for each in documents],
            "replace": replace,
            "require_all": require_all,
            "metadata": dict(metadata or {}),
            "message_id": message_id or os.urandom(16).hex(),  # a request whose answer was lost is not done again
        }
        made = self._wire.ask(
            "POST",
            "/api/packets",
            headers={"Content-Type": "application/json"},
            content=content_of(json.dumps(wish).encode()),
            again=True,
        )
        return decode(AcceptedPacket, made)

    def list(self, *, collection: str | None = None, page: int = 100) -> Iterator[Packet]:
        """Packets by number."""
        return self._wire.pages("GET", "/api/packets", Packet, query={"collection": collection, "limit": page})

    def show(self, id: int) -> Packet:  # noqa: A002
        """One packet, with its documents and parts."""
        return decode(Packet, self._wire.ask("GET", "/api/packets/{id}", at={"id": id}))

    def why(self, id: int) -> Why:  # noqa: A002
        """Why it is where it is: one sentence, and the evidence."""
        return decode(Why, self._wire.ask("GET", "/api/packets/{id}/why", at={"id": id}))
