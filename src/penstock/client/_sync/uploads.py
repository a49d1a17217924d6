# Made from ../_async/uploads.py by `python -m tests.client.unasync`: change that one.
"""Documents in: one file, several, or a link.

Each carries an Idempotency-Key, which the client makes where the caller gives none: a request that was carried out and
whose answer was lost is answered again, not done again.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from penstock.client._sync.wire import Wire
from penstock.client.content import Form, Source, content_of
from penstock.client.decoding import decode, decode_list
from penstock.client.results import Accepted, FileAnswer

LINK = "application/vnd.penstock.link+json"
FETCHING = 630.0  # seconds: the server has ten minutes for a link


class Uploads:
    """What `client.documents` can send."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def put(
        self,
        collection: str,
        source: Source,
        name: str | None = None,
        *,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        uploaded_by: str | None = None,
        key: str | None = None,
    ) -> Accepted:
        """Send a file: a path, bytes, a file that is open in rb, or an iterator of pieces. NameTaken, unless `replace`."""
        content = content_of(source)
        made = self._wire.ask(
            "PUT",
            "/api/collections/{collection}/documents/{name}",
            at={"collection": collection, "name": _named(name, content.name)},
            query={"replace": replace or None, "metadata": metadata, "uploaded_by": uploaded_by},
            headers={"Idempotency-Key": _checked(key), "Content-Type": "application/octet-stream"},
            content=content,
        )
        return decode(Accepted, made)

    def put_link(
        self,
        collection: str,
        url: str,
        name: str,
        *,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        uploaded_by: str | None = None,
        key: str | None = None,
    ) -> Accepted:
        """Let the server fetch the file from an address."""
        made = self._wire.ask(
            "PUT",
            "/api/collections/{collection}/documents/{name}",
            at={"collection": collection, "name": name},
            query={"replace": replace or None, "metadata": metadata, "uploaded_by": uploaded_by},
            headers={"Idempotency-Key": _checked(key), "Content-Type": LINK},
            content=content_of(json.dumps({"url": url}).encode()),
            timeout=max(FETCHING, self._wire.patience.timeout),
        )
        return decode(Accepted, made)

    def post(
        self,
        collection: str,
        files: Mapping[str, Source],
        *,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        uploaded_by: str | None = None,
        key: str | None = None,
    ) -> list[FileAnswer]:
        """Send several files by name in one request, with an answer for each; one that is sent alone raises its error."""
        form = Form({name: content_of(source) for name, source in files.items()}, _new_key())
        answer = self._wire.ask(
            "POST",
            "/api/collections/{collection}/documents",
            at={"collection": collection},
            query={"replace": replace or None, "metadata": metadata, "uploaded_by": uploaded_by},
            headers={"Idempotency-Key": _checked(key), "Content-Type": form.type},
            content=form,
        )
        if isinstance(answer, dict):  # one file is answered like a PUT
            accepted = decode(Accepted, answer)
            return [FileAnswer(name=accepted.name, code=202, document=accepted)]
        return decode_list(FileAnswer, answer)


def _named(name: str | None, usual: str) -> str:
    if not (name or usual):
        raise ValueError("Give the document a name: its source has none.")
    return name or usual


def _checked(key: str | None) -> str:
    if key is not None and not (key.isascii() and key.isprintable() and 0 < len(key) <= 255):
        raise ValueError("An Idempotency-Key has 1 to 255 printable ASCII characters.")
    return key or _new_key()


def _new_key() -> str:
    return os.urandom(16).hex()
