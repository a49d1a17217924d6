"""A stream on its way into a bucket: cut into blocks, counted, hashed, and handed to an upload that can be stopped.

obstore takes an unfinished upload back when its body raises, and not when its task is cancelled. So the upload has a task that
is never cancelled, and is stopped through its body. One block waits for it at most: a slow bucket holds the source back.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from penstock.errors import BodyTooLarge

T = TypeVar("T")

PART = 8 * 1024 * 1024
BLOCK = 1024 * 1024  # bytes that are hashed at once, in a thread

Put = Callable[[bytes | AsyncIterator[bytes]], Coroutine[Any, Any, None]]


class Counted:
    """The blocks of a stream, counted and hashed as they pass."""

    def __init__(self, pieces: AsyncIterator[bytes], most: int) -> None:
        self.size = 0
        self.ended = False
        self._pieces = pieces
        self._most = most
        self._hash = hashlib.sha256()

    def digest(self) -> bytes:
        return self._hash.digest()

    async def blocks(self) -> AsyncIterator[bytes]:
        waiting: list[bytes] = []
        held = 0
        async for piece in self._pieces:
            self.size += len(piece)
            if self.size > self._most:
                raise BodyTooLarge(
                    f"More than {self._most:,} bytes, the most for one document (limits.bytes): split it, or raise the limit."
                )
            waiting.append(piece)
            held += len(piece)
            if held >= BLOCK:
                yield await self._hashed(waiting)
                waiting, held = [], 0
        last = await self._hashed(waiting)
        self.ended = True
        if last:
            yield last

    async def _hashed(self, waiting: list[bytes]) -> bytes:
        block = b"".join(waiting)
        await asyncio.to_thread(self._hash.update, block)
        return block


class _Stopped(Exception):
    """The body is not wanted any more."""


class Upload:
    """An upload in a task of its own, which is stopped through its body, and never cancelled."""

    def __init__(self, put: Put, first: list[bytes], *, whole: bool) -> None:
        self._next: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._stopped = False
        body = b"".join(first) if whole else self._body(first)
        self._task = asyncio.create_task(put(body))

    async def add(self, block: bytes | None) -> None:
        """Hand over a block, or None for the end, as soon as the one before is taken; raises what the upload failed by."""
        adding = asyncio.ensure_future(self._next.put(block))
        try:
            await asyncio.wait([adding, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            adding.cancel()
        if self._task.done():
            await self._task

    async def finish(self) -> None:
        await self.add(None)
        await asyncio.shield(self._task)

    async def stop(self) -> bool:
        """End it; whether all of it may be there already."""
        self._stopped = True
        while not self._next.empty():
            self._next.get_nowait()
        self._next.put_nowait(None)
        [outcome] = await asyncio.gather(self._task, return_exceptions=True)
        return not isinstance(outcome, _Stopped)

    async def _body(self, first: list[bytes]) -> AsyncIterator[bytes]:
        while first and not self._stopped:
            yield first.pop(0)
        while not self._stopped and (block := await self._next.get()) is not None:
            yield block
        if self._stopped:
            raise _Stopped


async def up_to(blocks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The first blocks, until they are this much; the others stay."""
    held = 0
    while held < size and (block := await anext(blocks, None)) is not None:
        held += len(block)
        yield block


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for its end also when we are cancelled meanwhile."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
