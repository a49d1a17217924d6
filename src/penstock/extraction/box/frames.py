"""The parent's end of a box's socket: frames in, with a limit for each, and without ever holding the loop.

A box may lie about everything. A frame is taken in as it comes, never as long as it claims to be; an unknown letter, a length
beyond its limit or an end in the middle is `Nonsense` or `Ended`, and the box is done for.
"""

import array
import asyncio
import socket
from typing import Any

from penstock.extraction.box import wire

AT_ONCE = 2**18
BREATH = 16  # receives after which others get their turn: a flood never has to wait, and would keep the loop


class Ended(Exception):
    """The box closed its end: it crashed, or was killed."""


class Nonsense(Exception):
    """The box said something that no box of ours says."""


class Stale(Nonsense):
    """The box had something left to say about the task before."""


class Frames:
    """What one box says."""

    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._rest = bytearray()
        self._received = 0

    async def next(self) -> tuple[bytes, bytes | bytearray]:
        """The next frame: its letter and its content."""
        while len(self._rest) < wire.HEADER.size:
            self._rest += await self._receive(AT_ONCE)
        kind, length = wire.HEADER.unpack_from(self._rest)
        if length > wire.LIMITS.get(kind, -1):
            raise Nonsense(f"a frame {kind!r} of {length} bytes")
        end = wire.HEADER.size + length
        body = self._rest[wire.HEADER.size : end]
        del self._rest[:end]
        while len(body) < length:
            body += await self._receive(min(AT_ONCE, length - len(body)))
        return kind, body

    async def send(self, kind: bytes, body: bytes, descriptor: int | None = None) -> None:
        """A frame to the box, with an open file beside it."""
        frame = wire.pack(kind, body)
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", () if descriptor is None else (descriptor,)))]
        try:
            sent = self._connection.sendmsg([frame], beside if descriptor is not None else [])
            if sent < len(frame):
                await self._loop.sock_sendall(self._connection, memoryview(frame)[sent:])
        except OSError:
            raise Ended from None

    def quiet(self) -> bool:
        """Nothing was said unasked, and the box is there."""
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._rest
        except OSError:
            return False
        return False

    async def _receive(self, most: int) -> bytes:
        self._received += 1
        if self._received % BREATH == 0:
            await asyncio.sleep(0)
        try:
            piece = await self._loop.sock_recv(self._connection, most)
        except OSError:
            piece = b""
        if not piece:
            raise Ended
        return piece


async def decode(body: bytes | bytearray) -> Any:
    """JSON of a box; a large one elsewhere, so that the loop can go on in between."""
    try:
        return wire.decode(body) if len(body) <= 2 * wire.BATCH_SIZE else await asyncio.to_thread(wire.decode, body)
    except (ValueError, RecursionError):
        raise Nonsense("a frame that is no JSON") from None
