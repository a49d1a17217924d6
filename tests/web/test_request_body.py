"""Bodies that are too large, too slow, not read, or not what was announced; on a real port, with a route that streams."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel

from penstock.web.middleware import request_body
from penstock.web.middleware.errors import handle_problems
from penstock.web.middleware.request_body import RequestBodies, check_head, pieces
from tests.polling import until
from tests.web.api_server import raw, serving

MOST = 1_000_000


class Named(BaseModel):
    name: str


class Taken:
    """What the streaming route has got."""

    def __init__(self) -> None:
        self.bodies: list[int] = []
        self.errors: list[str] = []


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
async def port(taken: Taken) -> AsyncIterator[int]:
    app = FastAPI()
    app.add_middleware(RequestBodies)
    handle_problems(app)

    @app.put("/stream")
    async def stream(request: Request) -> int:
        check_head(request, MOST)
        size = 0
        try:
            async for piece in pieces(request, MOST):
                size += len(piece)
        except Exception as error:
            taken.errors.append(type(error).__name__)
            raise
        taken.bodies.append(size)
        return size

    @app.post("/json")
    async def take(body: Named) -> str:
        return body.name

    @app.post("/unread")
    async def unread() -> str:
        return "fine"

    async with serving(app) as number:
        yield number


def put(size: str, *more: str) -> bytes:
    lines = ["PUT /stream HTTP/1.1", "Host: localhost", size, *more]
    return "\r\n".join([*lines, "", ""]).encode()


def problem(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    found: dict[str, object] = json.loads(body)
    return found


async def test_a_body_streams(port: int, taken: Taken) -> None:
    url = f"http://127.0.0.1:{port}/stream"
    async with aiohttp.ClientSession() as client, client.put(url, data=b"x" * 500_000) as answer:
        assert (answer.status, await answer.json()) == (200, 500_000)
    assert taken.bodies == [500_000]


async def test_a_body_that_says_it_is_too_large_is_not_begun(port: int, taken: Taken) -> None:
    answer = await raw(port, put("Content-Length: 1000001", "Expect: 100-continue"))
    assert b"100 Continue" not in answer
    assert problem(answer)["status"] == 413
    assert b"connection: close" in answer.lower()
    assert not taken.bodies
    assert not taken.errors


async def test_the_answer_reaches_a_client_that_sends_on(port: int) -> None:
    """One that reads only when it has sent all. Closing at once would reset the connection and take the answer away."""
    answer = await raw(port, put("Content-Length: 20000000"), *[b"x" * 1_000_000] * 20)
    assert problem(answer)["title"] == "Body too large"
    assert b"connection: close" in answer.lower()


async def test_a_body_without_a_length_is_counted(port: int, taken: Taken) -> None:
    async def content() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100_000

    async with (
        aiohttp.ClientSession() as client,
        client.put(f"http://127.0.0.1:{port}/stream", data=content()) as answer,
    ):
        assert answer.status == 413
    assert taken.bodies == []
    assert taken.errors == ["BodyTooLarge"]


async def test_an_idle_sender_gets_408(port: int, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "IDLE", 0.2)
    monkeypatch.setattr(request_body, "LINGER", 0.2)
    answer = await raw(port, put("Content-Length: 100"), b"only this")
    assert problem(answer)["status"] == 408
    assert taken.bodies == []


async def test_a_dripping_sender_gets_408(port: int, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "GRACE", 0.3)
    monkeypatch.setattr(request_body, "LINGER", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(put("Content-Length: 100000"))
    answered = asyncio.create_task(reader.readuntil(b"}"))
    while not answered.done():
        writer.write(b"x")
        await asyncio.wait([answered], timeout=0.05)
    assert problem(answered.result())["status"] == 408
    assert taken.bodies == []
    writer.close()


async def test_a_client_that_goes_in_the_middle(port: int, taken: Taken) -> None:
    answer = await raw(port, put("Content-Length: 100"), b"half", half_close=True)
    assert answer == b""
    await until(lambda: bool(taken.errors))
    assert taken.errors == ["ClientDisconnect"]
    assert taken.bodies == []


@pytest.mark.parametrize("size", [10, 300_000])
async def test_a_body_longer_than_announced(port: int, taken: Taken, size: int) -> None:
    answer = await raw(port, put(f"Content-Length: {size}") + b"x" * size + b" and more that is no request\r\n\r\n")
    assert problem(answer)["status"] == 400
    assert taken.bodies == []


@pytest.mark.parametrize(
    "lengths",
    [
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: -5",),
    ],
)
async def test_lengths_that_contradict_each_other(port: int, taken: Taken, lengths: tuple[str, ...]) -> None:
    answer = await raw(port, put(*lengths) + b"12345")
    assert problem(answer)["status"] == 400
    assert taken.bodies == []


async def test_json_is_not_gathered_without_end(port: int) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b'{"name": "'
        for _ in range(50):
            yield b"x" * 100_000

    async with aiohttp.ClientSession() as client:
        headers = {"Content-Type": "application/json"}
        async with client.post(f"http://127.0.0.1:{port}/json", data=content(), headers=headers) as answer:
            assert answer.status == 413
            assert answer.content_type == "application/problem+json"


async def test_a_small_unread_body_costs_no_connection(port: int) -> None:
    async with aiohttp.ClientSession() as client, client.post(f"http://127.0.0.1:{port}/unread", data=b"{}") as answer:
        assert answer.status == 200
        assert "Connection" not in answer.headers
