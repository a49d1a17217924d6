"""A server that fails on command, which nothing real does: each request takes the next line of a script.

The real API is what all other tests of the client speak to.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Flaky:
    """What it shall do, and what it was asked."""

    script: list[Play]
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; a play that closes it ends it."""
        try:
            while request := await _read(reader):
                self.asked.append(request)
                await self.script.pop(0)(writer)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.close()


def answer(status: int, body: Any = None, **headers: str) -> Play:
    """A whole answer; JSON, unless it is bytes."""

    async def play(writer: asyncio.StreamWriter) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        writer.write(_head(status, len(content), headers) + content)
        await writer.drain()

    return play


def half(status: int, length: int, content: bytes, **headers: str) -> Play:
    """An answer that breaks off."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, length, headers) + content)
        await writer.drain()
        writer.close()

    return play


def stuck(status: int, length: int, content: bytes) -> Play:
    """An answer that does not go on."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, length, {}) + content)
        await writer.drain()
        await asyncio.Event().wait()

    return play


async def cut(writer: asyncio.StreamWriter) -> None:
    """The connection ends without an answer."""
    writer.close()


async def hang(writer: asyncio.StreamWriter) -> None:
    """Nothing ever comes."""
    await asyncio.Event().wait()


@asynccontextmanager
async def playing(*script: Play) -> AsyncIterator[Flaky]:
    flaky = Flaky(list(script))
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(flaky.meet(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    flaky.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield flaky
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


def _head(status: int, length: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *rest = head.decode().rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    method, path, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    while "transfer-encoding" in headers:
        size = int(await reader.readline(), 16)
        body += await reader.readexactly(size)
        await reader.readline()
        if not size:
            break
    return Asked(method, path, headers, body)
