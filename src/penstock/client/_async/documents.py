"""`client.documents` and `client.packets`: send, fetch, list, show, explain, change, wait.

An upload carries an Idempotency-Key, which the client makes unless the caller gives one: a request whose answer was lost gets
the same answer again, and is not carried out twice.

A download that breaks off continues from its last byte (`Range`), as long as the document is the same one by its ETag,
which is the SHA-256 of the bytes. A file is written next to its target, verified, and then moved; what was fetched before a
failure is kept as `.part` and used by the next call.
"""

import builtins
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.client._async.transport import AsyncResource
from penstock.client.errors import BadAnswer, ClientError, ContentChanged, RangeRefused, StillWaiting, Unreachable
from penstock.client.models import (
    Accepted,
    AcceptedPacket,
    Chunk,
    Deleted,
    Document,
    Fetched,
    FileAnswer,
    Happening,
    Link,
    Packet,
    Page,
    Receipt,
    Version,
    Why,
    decode,
    decode_list,
)
from penstock.client.transport import async_off_loop, async_sleep
from penstock.client.upload_body import AsyncSource, Form, content_of

if TYPE_CHECKING:
    import httpx2

OFTEN, SELDOM = 0.1, 2.0  # seconds between two polls, at first and later
LINK = "application/vnd.penstock.link+json"
FETCHING = 630.0  # seconds: the server has ten minutes for a link
STARTS = 3  # of a download, at most


class AsyncUploads(AsyncResource):
    """The uploads of `client.documents`."""

    async def put(
        self,
        collection: str,
        source: AsyncSource,
        name: str | None = None,
        *,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        uploaded_by: str | None = None,
        key: str | None = None,
    ) -> Accepted:
        """Send a file: a path, bytes, a file that is open in rb, or an iterator of pieces. NameTaken, unless `replace`."""
        content = content_of(source)
        return await self._ask(
            Accepted,
            "PUT",
            "/api/collections/{collection}/documents/{name}",
            at={"collection": collection, "name": _named(name, content.name)},
            query={"replace": replace or None, "metadata": metadata, "uploaded_by": uploaded_by},
            headers={"Idempotency-Key": _checked(key), "Content-Type": "application/octet-stream"},
            content=content,
        )

    async def put_link(
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
        """Let the server fetch the file from a URL."""
        return await self._ask(
            Accepted,
            "PUT",
            "/api/collections/{collection}/documents/{name}",
            at={"collection": collection, "name": name},
            query={"replace": replace or None, "metadata": metadata, "uploaded_by": uploaded_by},
            headers={"Idempotency-Key": _checked(key), "Content-Type": LINK},
            content=content_of(json.dumps({"url": url}).encode()),
            timeout=max(FETCHING, self._transport.patience.timeout),
        )

    async def post(
        self,
        collection: str,
        files: Mapping[str, AsyncSource],
        *,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        uploaded_by: str | None = None,
        key: str | None = None,
    ) -> list[FileAnswer]:
        """Send several files by name in one request, with an answer for each; a single file raises its error."""
        form = Form({name: content_of(source) for name, source in files.items()}, _new_key())
        answer = await self._transport.ask(
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


@dataclass(slots=True)
class _Place:
    """The progress of a download."""

    count: int = 0
    tag: str = ""  # of the content, once it is known


class AsyncDownloads(AsyncResource):
    """The downloads of `client.documents`."""

    async def text(self, id: int) -> str:  # noqa: A002
        """The whole text of the version that search sees."""
        return (await self._transport.whole("/api/documents/{id}/text", {"id": id})).decode()

    async def page_image(self, id: int, page: int) -> bytes:  # noqa: A002
        """A page of a PDF, a packet or an image as a PNG."""
        return await self._transport.whole("/api/documents/{id}/pages/{number}/image", {"id": id, "number": page})

    def content(self, id: int, *, start: int = 0) -> AsyncIterator[bytes]:  # noqa: A002
        """The newest version's bytes in pieces, from `start` on. ContentChanged if it is replaced in the meantime."""
        return self._follow(id, _Place(start))

    async def download(self, id: int, to: str | os.PathLike[str]) -> Fetched:  # noqa: A002
        """Write the newest version's bytes to a file, which is replaced only when all of them have arrived."""
        path = Path(to)
        part = path.with_name(f"{path.name}.part")
        for _ in range(STARTS):
            try:
                count, digest = await self._fetch(id, part)
            except (ContentChanged, RangeRefused):  # the part is of another content
                await async_off_loop(part.unlink, missing_ok=True)
                continue
            except ClientError:
                await async_off_loop(_remove_empty, part)
                raise
            await async_off_loop(part.replace, path)
            return Fetched(path=str(path), size=count, digest=digest)
        raise ContentChanged(f"Document {id} changed {STARTS} times while it was fetched: try again later.")

    async def _fetch(self, id: int, part: Path) -> tuple[int, str]:  # noqa: A002
        import hashlib

        file = await async_off_loop(part.open, "a+b")
        try:
            digest = hashlib.sha256()
            file.seek(0)
            while piece := await async_off_loop(file.read, 2**20):
                digest.update(piece)
            place = _Place(file.tell())
            async for piece in self._follow(id, place):
                digest.update(piece)
                await async_off_loop(file.write, piece)
        finally:
            await async_off_loop(file.close)
        if len(place.tag) == 64 and place.tag != digest.hexdigest():
            raise ContentChanged(f"What came of document {id} is not its content.")
        return place.count, digest.hexdigest()

    async def _follow(self, id: int, place: _Place) -> AsyncIterator[bytes]:  # noqa: A002
        """Pieces from the place on, which moves with them; over as many connections as needed."""
        attempts = self._transport.attempts("GET")
        while True:
            wanted = {"Range": f"bytes={place.count}-"} if place.count else {}
            try:
                async with self._transport.stream(
                    "GET", "/api/documents/{id}/content", at={"id": id}, headers=wanted, attempts=attempts
                ) as response:
                    _check_same(response, place)
                    async for piece in self._transport.pieces(response):
                        place.count += len(piece)
                        attempts.renew()
                        yield piece
                return
            except Unreachable as error:
                pause = attempts.pause_after(error)
            await async_sleep(pause)


def _remove_empty(part: Path) -> None:
    """Remove the file if nothing was fetched."""
    if part.stat().st_size == 0:
        part.unlink()


def _check_same(response: "httpx2.Response", place: _Place) -> None:
    tag = response.headers.get("etag", "").strip('"')
    if place.tag and tag != place.tag:
        raise ContentChanged("The document was replaced while it was fetched: start again.")
    if place.count and response.status_code != 206:
        raise BadAnswer(
            "The server sends the whole document instead of the requested range: is there a proxy that drops Range?"
        )
    place.tag = tag


class AsyncDocuments(AsyncUploads, AsyncDownloads):
    """Documents by id."""

    # -- read ---------------------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        collection: str | None = None,
        status: str | None = None,
        parent: int | None = None,
        page: int = 100,
    ) -> AsyncIterator[Document]:
        """Documents by id; deleted ones only with status="deleted"."""
        wish = {"collection": collection, "status": status, "parent": parent, "limit": page}
        return self._transport.pages(Document, "/api/documents", query=wish)

    async def show(self, id: int) -> Document:  # noqa: A002
        """One document."""
        return await self._ask(Document, "GET", "/api/documents/{id}", at={"id": id})

    async def find(self, collection: str, name: str) -> Document:
        """One document, by its name."""
        at = {"collection": collection, "name": name}
        return await self._ask(Document, "GET", "/api/collections/{collection}/documents/{name}", at=at)

    def pages(self, id: int, *, page: int = 100) -> AsyncIterator[Page]:  # noqa: A002
        """The text page by page."""
        return self._transport.pages(Page, "/api/documents/{id}/pages", at={"id": id}, query={"limit": page})

    def chunks(self, id: int, *, page: int = 100) -> AsyncIterator[Chunk]:  # noqa: A002
        """The chunks that search finds, in order."""
        return self._transport.pages(Chunk, "/api/documents/{id}/chunks", at={"id": id}, query={"limit": page})

    async def why(self, id: int) -> Why:  # noqa: A002
        """Explain its state: one sentence, and the evidence."""
        return await self._ask(Why, "GET", "/api/documents/{id}/why", at={"id": id})

    async def history(self, id: int) -> builtins.list[Happening]:  # noqa: A002
        """Its events, oldest first."""
        return await self._ask_list(Happening, "/api/documents/{id}/history", at={"id": id})

    async def versions(self, id: int) -> builtins.list[Version]:  # noqa: A002
        """Its versions, and which one search sees."""
        return [each async for each in self._transport.pages(Version, "/api/documents/{id}/versions", at={"id": id})]

    async def wait(self, id: int, *, timeout: float = 600.0) -> Document:  # noqa: A002
        """The document, once it is ready, failed or deleted. StillWaiting if that takes longer."""
        until = time.monotonic() + timeout
        pause = OFTEN
        while True:
            shown = await self.show(id)
            if shown.is_over:
                return shown
            left = until - time.monotonic()
            if left <= 0:
                raise StillWaiting(
                    f"Document {id} ({shown.name}) is {shown.status} after {timeout:.0f} s: ask `why`.", document=shown
                )
            await async_sleep(min(pause, left))
            pause = min(SELDOM, pause * 1.5)

    # -- change -------------------------------------------------------------------------------------------------------

    async def retry(self, id: int) -> Document:  # noqa: A002
        """Retry a failed one."""
        return await self._ask(Document, "POST", "/api/documents/{id}/retry", at={"id": id})

    async def cancel(self, id: int) -> Document:  # noqa: A002
        """Stop preparing it; it becomes failed, as cancelled."""
        return await self._ask(Document, "POST", "/api/documents/{id}/cancel", at={"id": id})

    async def dismiss(self, id: int) -> Document:  # noqa: A002
        """Take a document that could not be read off the list of unread documents; it stays failed."""
        return await self._ask(Document, "POST", "/api/documents/{id}/dismiss", at={"id": id})

    async def link(self, id: int, *, seconds: int | None = None) -> Link:  # noqa: A002
        """A link to its bytes that works without a key, for some minutes."""
        made = await self._transport.ask("POST", "/api/documents/{id}/link", at={"id": id}, query={"seconds": seconds})
        link = decode(Link, made)
        return replace(link, url=self._transport.address.url + link.url) if link.url.startswith("/") else link

    async def delete(self, id: int, *, now: bool | None = None) -> Document:  # noqa: A002
        """Take it out of search and lists at once. It can be restored until `restorable_until`; not at all with `now`."""
        gone = await self._transport.ask("DELETE", "/api/documents/{id}", at={"id": id}, query={"now": now})
        return decode(Document, gone)

    async def delete_matching(  # noqa: PLR0913  each is a condition
        self,
        collection: str,
        *,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        media_types: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        name_glob: str | None = None,
        all: bool | None = None,  # noqa: A002
        limit: int | None = None,
        reason: str | None = None,
        now: bool | None = None,
    ) -> Deleted:
        """Delete what matches, up to a thousand at once: repeat while there are `more`. Without a condition it needs `all`."""
        wish = {
            "collection": collection,
            "status": status,
            "metadata": metadata,
            "media_types": [*media_types] or None,
            "since": since and since.isoformat(),
            "until": until and until.isoformat(),
            "name_glob": name_glob,
            "all": all,
            "limit": limit,
            "reason": reason,
            "now": now,
        }
        named = {name: value for name, value in wish.items() if value is not None}
        return await self._ask(Deleted, "POST", "/api/documents/delete", body=named)

    async def restore(self, id: int) -> Document:  # noqa: A002
        """Bring a deleted one back, while that is possible."""
        return await self._ask(Document, "POST", "/api/documents/{id}/restore", at={"id": id})

    async def receipt(self, id: int) -> Receipt:  # noqa: A002
        """The receipt of a deleted one: what was removed, and how that was verified."""
        return await self._ask(Receipt, "GET", "/api/documents/{id}/receipt", at={"id": id})

    def receipts(self, *, page: int = 100) -> AsyncIterator[Receipt]:
        """The receipts of all deletions."""
        return self._transport.pages(Receipt, "/api/receipts", query={"limit": page})


class AsyncPackets(AsyncResource):
    """Packets by id. The consolidated PDF and its pages are those of the document with the same id."""

    async def put(
        self,
        collection: str,
        name: str,
        files: Mapping[str, AsyncSource],
        *,
        replace: bool = False,
        require_all: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AcceptedPacket:
        """Send the files of a packet by name, in their order. NameTaken, unless `replace`."""
        form = Form({key: content_of(source) for key, source in files.items()}, os.urandom(16).hex())
        return await self._ask(
            AcceptedPacket,
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

    async def put_list(
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
        return await self._ask(
            AcceptedPacket,
            "POST",
            "/api/packets",
            headers={"Content-Type": "application/json"},
            content=content_of(json.dumps(wish).encode()),
            again=True,
        )

    def list(self, *, collection: str | None = None, page: int = 100) -> AsyncIterator[Packet]:
        """Packets by id."""
        return self._transport.pages(Packet, "/api/packets", query={"collection": collection, "limit": page})

    async def show(self, id: int) -> Packet:  # noqa: A002
        """One packet, with its documents and parts."""
        return await self._ask(Packet, "GET", "/api/packets/{id}", at={"id": id})

    async def why(self, id: int) -> Why:  # noqa: A002
        """Explain its state: one sentence, and the evidence."""
        return await self._ask(Why, "GET", "/api/packets/{id}/why", at={"id": id})
