"""An application on a real port, and raw requests that no client library would send."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from penstock.web.server import listen, serve


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[int]:
    """The port on which the application answers while the block runs."""
    listener = listen("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    stopping = asyncio.Event()
    task = asyncio.create_task(serve(app, listener, stopping))
    try:
        yield port
    finally:
        stopping.set()
        await task
        listener.close()


async def raw(port: int, *parts: bytes, half_close: bool = False, within: float = 10) -> bytes:
    """Send the bytes as they are; all that comes back until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if half_close:
            writer.write_eof()
        async with asyncio.timeout(within):
            return await reader.read()
    finally:
        writer.close()
