"""The talk about one task: what the box says until its result, with every limit checked again on this side.

A task may send parts (attachments, members of an archive) while it runs; each goes to the caller's `Sink` as it comes, and
the box waits while the sink is slow. Nothing that a box says can make the parent keep more than the limits.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from typing_extensions import override

from penstock.errors import Corrupt, JobFailure, TooMuch
from penstock.extraction.box import wire
from penstock.extraction.box.frames import Frames, Nonsense, Stale, decode
from penstock.extraction.box.watch import Watch
from penstock.settings.values import format_size
from penstock.telemetry import log

# Takes one part: its header ({"name": …, "size": …}, not to be trusted) and its bytes as they come. When the box cannot go on
# with the part, the iterator raises `Corrupt`; a sink that lets it pass gets the next part. Any other error ends the call.
Sink = Callable[[dict[str, Any], AsyncIterator[bytes]], Awaitable[None]]
Progress = Callable[[int, int], None]

MOST_RESULT = 2**28
MOST_FRAMES = 100_000  # of those that carry no part
LEAST_PARTS = 2**26  # bytes of parts that even a tiny archive may have: the child judges by ratio, this is behind it


@dataclass(frozen=True)
class Request:
    """What a caller wants of a box."""

    task: str
    file: BinaryIO
    arguments: Mapping[str, Any]
    seconds: float
    sink: Sink | None = None
    progress: Progress | None = None
    name: str = ""  # of the document, for the log


class Exchange:
    """One task of one box."""

    def __init__(self, frames: Frames, watch: Watch, request: Request) -> None:
        limits = request.arguments.get("limits") or {}
        size = os.fstat(request.file.fileno()).st_size
        self.request = request
        self.frames = frames
        self.watch = watch
        self.parts = 0  # begun so far
        self.most_parts: int = limits.get("members", 1000)
        self.most_part: int = limits.get("bytes", 2**31)
        self.most_all: int = max(LEAST_PARTS, size * limits.get("expansion", 200))
        self.taken = 0
        self.over = False  # the box has ended its task, and can take another one
        self._gathered: dict[str, list[Any]] = {}
        self._size = 0
        self._frames = 0

    async def begin(self, token: str) -> None:
        """`Stale` when the box still talks about something else."""
        kind, body = await self.frames.next()
        if kind != wire.BEGIN or body != token.encode():
            raise Stale(f"a frame {kind!r} before the task began")

    async def result(self) -> Any:
        """What the task returned; the error that the box names, `Ended` when it died."""
        while True:
            kind, body = await self.frames.next()
            self._frames += 1
            self._size += len(body)
            if self._size > MOST_RESULT or self._frames > MOST_FRAMES:
                raise TooMuch(f"Its text is more than {format_size(MOST_RESULT)}.")
            match kind:
                case wire.RESULT:
                    return await self._finish(body)
                case wire.MORE:
                    await self._gather(body)
                case wire.ERROR:
                    raise await self._failure(body)
                case wire.PROGRESS:
                    await self._tell(body)
                case wire.PART if self.request.sink is not None:
                    self._size -= len(body)
                    self._frames -= 1
                    await self._pass_on(body, self.request.sink)
                case _:
                    raise Nonsense(f"a frame {kind!r} that was not asked for")

    async def _finish(self, body: bytes | bytearray) -> Any:
        value = await decode(body)
        if self._gathered:
            if not isinstance(value, dict):
                raise Nonsense("items of a result that has none")
            value |= self._gathered
        self.over = True
        return value

    async def _gather(self, body: bytes | bytearray) -> None:
        batch = await decode(body)
        if not isinstance(batch, dict) or not all(isinstance(items, list) for items in batch.values()):
            raise Nonsense("a batch that is none")
        for key, items in batch.items():
            self._gathered.setdefault(key, []).extend(items)

    async def _failure(self, body: bytes | bytearray) -> JobFailure:
        fields = await decode(body)
        if not isinstance(fields, dict):
            raise Nonsense("an error that is none")
        trace = fields.get("trace")
        if isinstance(trace, str) and trace:
            log.warning("a reader failed", document=self.request.name, task=self.request.task, trace=trace)
        self.over = True
        known = wire.FAILURES.get(str(fields.get("error")), Corrupt)
        return known(wire.plain(str(fields.get("message"))) or "The reader gave no reason.")

    async def _tell(self, body: bytes | bytearray) -> None:
        fields = await decode(body)
        done, total = (fields.get("done"), fields.get("total")) if isinstance(fields, dict) else (None, None)
        if not (type(done) is type(total) is int and 0 <= done <= total <= 2**31):
            raise Nonsense("a progress that cannot be")
        if self.request.progress is not None:
            self.request.progress(done, total)

    async def _pass_on(self, body: bytes | bytearray, sink: Sink) -> None:
        header = await decode(body)
        if not isinstance(header, dict):
            raise Nonsense("a part without a header")
        self.parts += 1
        if self.parts > self.most_parts:
            raise TooMuch(f"It has more than {self.most_parts} files inside (limits.members).")
        part = Part(self)
        self.watch.pause()
        try:
            await sink(header, part)
        except Corrupt as error:
            if error is not part.broken:
                raise
        finally:
            self.watch.resume()
        await part.skip()


class Part(AsyncIterator[bytes]):
    """The bytes of one part."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._size = 0
        self._over = False
        self.broken: Corrupt | None = None

    @override
    async def __anext__(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        self._exchange.watch.resume()
        try:
            kind, body = await self._exchange.frames.next()
        finally:
            self._exchange.watch.pause()
        match kind:
            case wire.PIECE:
                self._count(len(body))
                return bytes(body)
            case wire.PART_END:
                self._over = True
                raise StopAsyncIteration
            case wire.PART_BROKEN:
                self._over = True
                self.broken = Corrupt("This part of it is damaged.")
                raise self.broken
            case _:
                raise Nonsense(f"a frame {kind!r} inside a part")

    async def skip(self) -> None:
        """What the sink did not want."""
        while not self._over:
            try:
                await anext(self)
            except (StopAsyncIteration, Corrupt):
                break
        self._exchange.watch.resume()

    def _count(self, size: int) -> None:
        self._size += size
        self._exchange.taken += size
        if self._size > self._exchange.most_part:
            raise TooMuch(f"A file inside is larger than {format_size(self._exchange.most_part)} (limits.bytes).")
        if self._exchange.taken > self._exchange.most_all:
            raise TooMuch("The files inside are far larger than it (limits.expansion).")
