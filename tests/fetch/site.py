"""A web server that says exactly what a test wants, also what no proper server would say."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from penstock.fetch import Fetcher
from penstock.settings.web import FetchSettings

Page = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes = b"", *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def moved(location: str, status: str = "302 Found") -> bytes:
    return reply(b"", f"Location: {location}", status=status)


class Site:
    """Pages by their path; `requests` is what came in, headers and all."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[str] = []
        self.port = 0
        self.gone = asyncio.Event()  # a client has left
        self._serving: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(request)
            page = self.pages.get(request.split(" ")[1], reply(status="404 Not Found"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except (OSError, asyncio.IncompleteReadError):
            self.gone.set()
        except asyncio.CancelledError:
            writer.transport.abort()  # the test is over
        finally:
            writer.close()

    async def stop(self) -> None:
        for task in [*self._serving]:
            task.cancel()
        await asyncio.gather(*self._serving)

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def open_site(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.serve, host, port, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await site.stop()


class Names:
    """A name server of the test: each name has its answers in turn, the last of them for ever."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): turns for name, turns in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        turns = self.answers[host]
        return turns.pop(0) if len(turns) > 1 else turns[0]


def settings_for(site: Site, private: str = "127.0.0.1", **others: Any) -> FetchSettings:
    timeouts = {"connect_timeout": timedelta(seconds=5), "idle_timeout": timedelta(seconds=5)}
    return FetchSettings(ports=str(site.port), private=private, **(timeouts | others))


async def read(fetcher: Fetcher, url: str, most: int = 1000) -> bytes:
    async with fetcher.open(url, most=most) as response:
        return b"".join([piece async for piece in response.pieces()])
