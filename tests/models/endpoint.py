"""An embedding endpoint as OpenAI has them: a real server that answers as it is told to."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Reply = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def told(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"index": place, "embedding": vector(text)} for place, text in enumerate(body["input"])]


class Server:
    """Answers well until `reply` is another one; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.reply: Reply = self.well
        self.port = 0

    async def well(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": told(body)})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers.get("Authorization"))
        self.paths.append(request.path)
        return await self.reply(request, body)

    def says(self, status: int, text: str = "", **headers: str) -> None:
        async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            return web.Response(
                status=status, text=text, headers={name.replace("_", "-"): value for name, value in headers.items()}
            )

        self.reply = reply

    def gives(self, make: Callable[[dict[str, Any]], object]) -> None:
        async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            return web.Response(text=json.dumps(make(body)), content_type="application/json")

        self.reply = reply


@asynccontextmanager
async def serve() -> AsyncIterator[Server]:
    known = Server()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", known.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    known.port = runner.addresses[0][1]
    try:
        yield known
    finally:
        await runner.cleanup()
