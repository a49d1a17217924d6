"""A chat endpoint as OpenAI has them: a real server that misbehaves on command."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Reply = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def completion(content: object, finish: str = "stop", **others: Any) -> dict[str, Any]:
    """The body of a good answer: 100 tokens of prompt, 20 of answer."""
    message = {"role": "assistant", "content": content} | others
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return {"id": "c1", "object": "chat.completion", "model": "gpt-tiny-1", "choices": [choice], "usage": usage}


def answers(content: object, finish: str = "stop", **others: Any) -> Reply:
    return gives(completion(content, finish, **others))


def gives(body: object) -> Reply:
    async def reply(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), content_type="application/json")

    return reply


def refuses(status: int, error: object = None, **headers: str) -> Reply:
    async def reply(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response({"error": error}, status=status, headers=named)

    return reply


def slow(seconds: float, content: str = "well") -> Reply:
    async def reply(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response(completion(content))

    return reply


async def stuck(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    """Takes the request, and says nothing for ever."""
    await asyncio.Event().wait()
    raise AssertionError


async def cut(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    """Breaks off in the middle."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.abort()
    return response


def huge(size: int) -> Reply:
    return answers("x" * size)


class Chat:
    """Answers well until it is told otherwise; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.usual: Reply = answers("well")
        self.next: deque[Reply] = deque()  # each for one request
        self.inside = self.most = 0
        self.entered: Callable[[], None] = lambda: None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(str(request.rel_url))
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered()
        try:
            reply = self.next.popleft() if self.next else self.usual
            return await reply(request, body)
        finally:
            self.inside -= 1


@asynccontextmanager
async def chatting() -> AsyncIterator[Chat]:
    chat = Chat()
    application = web.Application(client_max_size=16 * 2**20)
    application.router.add_route("*", "/{rest:.*}", chat.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    chat.port = runner.addresses[0][1]
    try:
        yield chat
    finally:
        await runner.cleanup()
