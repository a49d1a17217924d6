"""A document's bytes and text out.

A download that breaks off goes on from the byte where it stood (`Range`), as long as the document is the same one by its
ETag, which is the SHA-256 of the bytes. A file is written beside its place, compared with that, and moved there whole; what
was fetched before a failure is kept as `.part` and used by the next call.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client._async.wire import AsyncWire
from penstock.client.errors import BadAnswer, ClientError, ContentChanged, RangeRefused, Unreachable
from penstock.client.results import Fetched
from penstock.client.waiting import async_off_loop, async_sleep

if TYPE_CHECKING:
    import httpx2

ANEW = 3  # times that a download begins, at most


@dataclass(slots=True)
class _Place:
    """How far a download is."""

    count: int = 0
    tag: str = ""  # of the content, once it is known


class AsyncDownloads:
    """What `client.documents` can fetch."""

    _wire: AsyncWire

    async def text(self, id: int) -> str:  # noqa: A002
        """The whole text of the version that search sees."""
        attempts = self._wire.attempts("GET")
        while True:
            try:
                async with self._wire.stream(
                    "GET", "/api/documents/{id}/text", at={"id": id}, attempts=attempts
                ) as response:
                    return b"".join([piece async for piece in self._wire.pieces(response)]).decode()
            except Unreachable as error:
                pause = attempts.pause_after(error)
            await async_sleep(pause)

    async def page_image(self, id: int, page: int) -> bytes:  # noqa: A002
        """A page of a PDF, a packet or an image as a PNG."""
        attempts = self._wire.attempts("GET")
        while True:
            try:
                async with self._wire.stream(
                    "GET", "/api/documents/{id}/pages/{number}/image", at={"id": id, "number": page}, attempts=attempts
                ) as response:
                    return b"".join([piece async for piece in self._wire.pieces(response)])
            except Unreachable as error:
                pause = attempts.pause_after(error)
            await async_sleep(pause)

    def content(self, id: int, *, start: int = 0) -> AsyncIterator[bytes]:  # noqa: A002
        """The newest version's bytes in pieces, from `start` on. ContentChanged if it is replaced meanwhile."""
        return self._follow(id, _Place(start))

    async def download(self, id: int, to: str | os.PathLike[str]) -> Fetched:  # noqa: A002
        """Make a file of the newest version's bytes; what stands there is replaced once all of it has come."""
        path = Path(to)
        part = path.with_name(f"{path.name}.part")
        for _ in range(ANEW):
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
        raise ContentChanged(f"Document {id} changed {ANEW} times while it was fetched: try again later.")

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
        """Pieces from the place on, which moves along; over as many connections as it takes."""
        attempts = self._wire.attempts("GET")
        while True:
            wanted = {"Range": f"bytes={place.count}-"} if place.count else {}
            try:
                async with self._wire.stream(
                    "GET", "/api/documents/{id}/content", at={"id": id}, headers=wanted, attempts=attempts
                ) as response:
                    _check_same(response, place)
                    async for piece in self._wire.pieces(response):
                        place.count += len(piece)
                        attempts.renew()
                        yield piece
                return
            except Unreachable as error:
                pause = attempts.pause_after(error)
            await async_sleep(pause)


def _remove_empty(part: Path) -> None:
    """Nothing came: a file that says so helps nobody."""
    if part.stat().st_size == 0:
        part.unlink()


def _check_same(response: "httpx2.Response", place: _Place) -> None:
    tag = response.headers.get("etag", "").strip('"')
    if place.tag and tag != place.tag:
        raise ContentChanged("The document was replaced while it was fetched: begin anew.")
    if place.count and response.status_code != 206:
        raise BadAnswer("The server sends the document from its beginning, although a part was asked for.")
    place.tag = tag
