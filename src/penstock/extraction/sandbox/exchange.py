"""The exchange of frames about one task, from the request to its result, with every limit checked again by the parent.

A task may send parts (attachments, archive members) while it runs; each goes to the caller's `Sink` as it arrives, and the
sandbox waits while the sink is slow. No frame can make the parent keep more than the limits allow, or block its event loop.
"""

import array
import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from typing_extensions import override

from penstock.errors import Corrupt, JobFailure, TooMuch
from penstock.extraction.sandbox import protocol
from penstock.extraction.sandbox.monitor import Monitor
from penstock.settings import format_size
from penstock.telemetry import log

RECEIVE_SIZE = 2**18
YIELD_EVERY = 16  # receives: a socket with data never suspends, so a flood would block the event loop
MOST_RESULT = 2**28
MOST_FRAMES = 100_000  # of those that carry no part
LEAST_PARTS = (
    2**26
)  # bytes of parts that even a tiny archive may have: the child judges by ratio, this is the second bound

# Takes one part: its header ({"name": …, "size": …}, untrusted) and its bytes as they arrive. When the sandbox cannot continue
# a part, the iterator raises `Corrupt`; a sink that lets it pass gets the next part. Any other error ends the call.
Sink = Callable[[dict[str, Any], AsyncIterator[bytes]], Awaitable[None]]
Progress = Callable[[int, int], None]


class SandboxEnded(Exception):
    """The sandbox closed its end of the socket: it crashed or was killed."""


class ProtocolBroken(Exception):
    """The sandbox sent something that the protocol does not allow."""


class StaleFrame(ProtocolBroken):
    """The sandbox still sent frames of the task before."""


class FrameStream:
    """The parent's end of a sandbox's socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._rest = bytearray()
        self._received = 0

    async def next(self) -> tuple[bytes, bytes | bytearray]:
        """The next frame: its letter and its content."""
        while len(self._rest) < protocol.HEADER.size:
            self._rest += await self._receive(RECEIVE_SIZE)
        kind, length = protocol.HEADER.unpack_from(self._rest)
        if length > protocol.LIMITS.get(kind, -1):
            raise ProtocolBroken(f"a frame {kind!r} of {length} bytes")
        end = protocol.HEADER.size + length
        body = self._rest[protocol.HEADER.size : end]
        del self._rest[:end]
        while len(body) < length:
            body += await self._receive(min(RECEIVE_SIZE, length - len(body)))
        return kind, body

    async def send(self, kind: bytes, body: bytes, descriptor: int | None = None) -> None:
        """Send a frame to the sandbox, with an open file if there is one."""
        frame = protocol.pack(kind, body)
        ancillary = [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", () if descriptor is None else (descriptor,)))
        ]
        try:
            sent = self._connection.sendmsg([frame], ancillary if descriptor is not None else [])
            if sent < len(frame):
                await self._loop.sock_sendall(self._connection, memoryview(frame)[sent:])
        except OSError:
            raise SandboxEnded from None

    def quiet(self) -> bool:
        """Whether the sandbox is alive and has sent nothing unasked."""
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._rest
        except OSError:
            return False
        return False

    async def _receive(self, most: int) -> bytes:
        self._received += 1
        if self._received % YIELD_EVERY == 0:
            await asyncio.sleep(0)
        try:
            piece = await self._loop.sock_recv(self._connection, most)
        except OSError:
            piece = b""
        if not piece:
            raise SandboxEnded
        return piece


async def decode(body: bytes | bytearray) -> Any:
    """Decode JSON of a sandbox, a large one in a thread, so that the event loop is not blocked."""
    try:
        return (
            protocol.decode(body)
            if len(body) <= 2 * protocol.BATCH_SIZE
            else await asyncio.to_thread(protocol.decode, body)
        )
    except (ValueError, RecursionError):
        raise ProtocolBroken("a frame that is not JSON") from None


@dataclass(frozen=True)
class TaskRequest:
    """A task for a sandbox, with the caller's file and callbacks."""

    task: str
    file: BinaryIO
    arguments: Mapping[str, Any]
    seconds: float
    sink: Sink | None = None
    progress: Progress | None = None
    name: str = ""  # of the document, for the log


class Exchange:
    """One task of one sandbox."""

    def __init__(self, frames: FrameStream, monitor: Monitor, request: TaskRequest) -> None:
        limits = request.arguments.get("limits") or {}
        size = os.fstat(request.file.fileno()).st_size
        self.request = request
        self.frames = frames
        self.monitor = monitor
        self.parts = 0  # begun so far
        self.most_parts: int = limits.get("members", 1000)
        self.most_part: int = limits.get("bytes", 2**31)
        self.most_all: int = max(LEAST_PARTS, size * limits.get("expansion", 200))
        self.taken = 0
        self.over = False  # the sandbox has ended its task, and can run another one
        self._gathered: dict[str, list[Any]] = {}
        self._size = 0
        self._frames = 0

    async def begin(self, token: str) -> None:
        """Wait until the task begins; `StaleFrame` when the sandbox still sends frames of another one."""
        kind, body = await self.frames.next()
        if kind != protocol.BEGIN or body != token.encode():
            raise StaleFrame(f"a frame {kind!r} before the task began")

    async def result(self) -> Any:
        """Return the task's value, or raise the error that the sandbox names, or `SandboxEnded`."""
        while True:
            kind, body = await self.frames.next()
            self._frames += 1
            self._size += len(body)
            if self._size > MOST_RESULT or self._frames > MOST_FRAMES:
                raise TooMuch(f"The text of the document is larger than {format_size(MOST_RESULT)}.")
            match kind:
                case protocol.RESULT:
                    return await self._finish(body)
                case protocol.MORE:
                    await self._gather(body)
                case protocol.ERROR:
                    raise await self._failure(body)
                case protocol.PROGRESS:
                    await self._report(body)
                case protocol.PART if self.request.sink is not None:
                    self._size -= len(body)
                    self._frames -= 1
                    await self._pass_on(body, self.request.sink)
                case _:
                    raise ProtocolBroken(f"a frame {kind!r} that was not asked for")

    async def _finish(self, body: bytes | bytearray) -> Any:
        value = await decode(body)
        if self._gathered:
            if not isinstance(value, dict):
                raise ProtocolBroken("items of a result that has none")
            value |= self._gathered
        self.over = True
        return value

    async def _gather(self, body: bytes | bytearray) -> None:
        batch = await decode(body)
        if not isinstance(batch, dict) or not all(isinstance(items, list) for items in batch.values()):
            raise ProtocolBroken("a malformed batch")
        for key, items in batch.items():
            self._gathered.setdefault(key, []).extend(items)

    async def _failure(self, body: bytes | bytearray) -> JobFailure:
        fields = await decode(body)
        if not isinstance(fields, dict):
            raise ProtocolBroken("a malformed error")
        trace = fields.get("trace")
        if isinstance(trace, str) and trace:
            log.warning("a reader failed", document=self.request.name, task=self.request.task, trace=trace)
        self.over = True
        known = protocol.FAILURES.get(str(fields.get("error")), Corrupt)
        return known(protocol.plain(str(fields.get("message"))) or "The reader gave no reason.")

    async def _report(self, body: bytes | bytearray) -> None:
        fields = await decode(body)
        done, total = (fields.get("done"), fields.get("total")) if isinstance(fields, dict) else (None, None)
        if not (type(done) is type(total) is int and 0 <= done <= total <= 2**31):
            raise ProtocolBroken("a malformed progress")
        if self.request.progress is not None:
            self.request.progress(done, total)

    async def _pass_on(self, body: bytes | bytearray, sink: Sink) -> None:
        header = await decode(body)
        if not isinstance(header, dict):
            raise ProtocolBroken("a part without a header")
        self.parts += 1
        if self.parts > self.most_parts:
            raise TooMuch(f"The file has more than {self.most_parts} files inside (limits.members).")
        part = PartStream(self)
        self.monitor.pause()
        try:
            await sink(header, part)
        except Corrupt as error:
            if error is not part.broken:
                raise
        finally:
            self.monitor.resume()
        await part.skip()


class PartStream(AsyncIterator[bytes]):
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
        self._exchange.monitor.resume()
        try:
            kind, body = await self._exchange.frames.next()
        finally:
            self._exchange.monitor.pause()
        match kind:
            case protocol.PIECE:
                self._count(len(body))
                return bytes(body)
            case protocol.PART_END:
                self._over = True
                raise StopAsyncIteration
            case protocol.PART_BROKEN:
                self._over = True
                self.broken = Corrupt("This part of the file is damaged.")
                raise self.broken
            case _:
                raise ProtocolBroken(f"a frame {kind!r} inside a part")

    async def skip(self) -> None:
        """Drop what the sink did not read."""
        while not self._over:
            try:
                await anext(self)
            except (StopAsyncIteration, Corrupt):
                break
        self._exchange.monitor.resume()

    def _count(self, size: int) -> None:
        self._size += size
        self._exchange.taken += size
        if self._size > self._exchange.most_part:
            raise TooMuch(f"A file inside is larger than {format_size(self._exchange.most_part)} (limits.bytes).")
        if self._exchange.taken > self._exchange.most_all:
            raise TooMuch("The files inside are far larger than the file itself (limits.expansion).")
