"""An answer whose body comes in pieces, counted and timed while they come."""

import asyncio
import re
from collections.abc import AsyncIterator

import aiohttp

from penstock.fetch.filename import file_name
from penstock.fetch.judgement import told, too_large
from penstock.fetch.target import Target

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")


class Response:
    """What the server says about the file, and the file."""

    def __init__(self, answer: aiohttp.ClientResponse, target: Target, most: int, deadline: float) -> None:
        self._answer = answer
        self._target = target
        self._most = most
        self._deadline = deadline
        self.url = str(target.url)
        self.media_type = _media_type(answer.headers.get("Content-Type", ""))
        self.size = answer.content_length
        self.name = file_name(answer.headers.get("Content-Disposition", ""), target)

    def header(self, name: str) -> str:
        """A header as it came; one that came several times with commas between, one that did not as nothing."""
        return ", ".join(self._answer.headers.getall(name, []))

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, once."""
        count = 0
        while piece := await self._next():
            count += len(piece)
            if count > self._most:
                raise too_large(self._target, self._most)
            yield piece

    async def _next(self) -> bytes:
        with told(self._target):
            # Each wait on its own, because a deadline around the caller's loop would cancel the caller's work.
            async with asyncio.timeout_at(self._deadline):
                return await self._answer.content.readany()


def _media_type(header: str) -> str:
    """As the server declares it, without parameters; empty when it is none."""
    declared = header.partition(";")[0].strip().lower()
    return declared if _MEDIA_TYPE.fullmatch(declared) else ""
