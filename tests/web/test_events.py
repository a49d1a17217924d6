"""Server-sent events: one for a change, few for many, and an end when the server stops."""

import asyncio
import time

import aiohttp

from penstock.product import Product
from penstock.web import make_app
from penstock.web.server import listen, serve
from tests.web.conftest import Api


async def next_event(stream: aiohttp.StreamReader, within: float = 5) -> float:
    """When the next `changed` has come."""
    async with asyncio.timeout(within):
        while True:
            line = await stream.readline()
            assert line, "the stream has ended"
            if line.startswith(b"event: changed"):
                return time.monotonic()


async def test_a_change_is_told_to_all(api: Api) -> None:
    await api.make("mill")
    url = f"http://127.0.0.1:{api.port}/api/events"
    async with aiohttp.ClientSession() as client, client.get(url) as first, client.get(url) as second:
        assert first.headers["Content-Type"].startswith("text/event-stream")
        for stream in (first.content, second.content):
            await next_event(stream)
        await api.put("a.txt")
        for stream in (first.content, second.content):
            await next_event(stream)


async def test_many_changes_are_few_events(api: Api) -> None:
    await api.make("mill")
    count = 0

    async def listen_on(stream: aiohttp.StreamReader) -> None:
        nonlocal count
        while True:
            await next_event(stream, 60)
            count += 1

    url = f"http://127.0.0.1:{api.port}/api/events"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        await next_event(answer.content)
        listening = asyncio.create_task(listen_on(answer.content))
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            await api.ask("PUT", f"/api/collections/mill/documents/{time.monotonic_ns()}", data=b"x")
        listening.cancel()
    assert 1 <= count <= 5


async def test_streams_end_when_the_server_stops(product: Product) -> None:
    listener = listen("127.0.0.1", 0)
    stopping = asyncio.Event()
    task = asyncio.create_task(serve(make_app(product), listener, stopping))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/events"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        await next_event(answer.content)
        stopping.set()
        await answer.content.read()
        await task
    listener.close()
