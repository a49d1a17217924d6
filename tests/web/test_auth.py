"""Only this machine may ask, and no page of another site; every answer has its headers."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from fastapi import FastAPI

from penstock.database import Database
from penstock.settings.settings import ApiSettings
from penstock.web.middleware.auth import ALWAYS, Authentication, Authenticator, SecurityHeaders
from penstock.web.middleware.errors import handle_problems
from tests.web.api_server import raw, serving


@pytest.fixture
async def port(database: Database) -> AsyncIterator[int]:
    app = FastAPI()
    app.add_middleware(Authentication, authenticator=Authenticator(database, ApiSettings()))
    app.add_middleware(SecurityHeaders)
    handle_problems(app)

    @app.get("/{name:path}")
    @app.post("/{name:path}")
    async def hello(name: str) -> str:
        return name

    async with serving(app) as number:
        yield number


async def ask(
    port: int, *, path: str = "/a", method: str = "GET", **headers: str
) -> tuple[int, aiohttp.ClientResponse]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as client, client.request(method, url, headers=headers) as answer:
        await answer.read()
        return answer.status, answer


async def test_names_of_this_machine(port: int) -> None:
    for host in ("localhost", "127.0.0.1", "127.8.8.8", "[::1]", "mill.localhost"):
        assert (await ask(port, Host=host))[0] == 200, host
        assert (await ask(port, Host=f"{host}:{port}"))[0] == 200, host


async def test_foreign_names_that_point_here(port: int) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example", "[::1"):
        status, answer = await ask(port, Host=f"{host}:{port}")
        assert (status, answer.content_type) == (403, "application/problem+json"), host


async def test_pages_of_other_sites(port: int) -> None:
    own = f"http://127.0.0.1:{port}"
    assert (await ask(port, Origin=own, method="POST"))[0] == 200
    for foreign in ("https://evil.example", "null", f"http://evil.example:{port}", "http://127.0.0.1:1", ""):
        assert (await ask(port, Origin=foreign, method="POST"))[0] == 403, foreign


async def test_every_answer_has_its_headers(port: int) -> None:
    for status, answer in (await ask(port), await ask(port, Origin="null"), await ask(port, method="DELETE")):
        assert {name: answer.headers.get(name) for name in ALWAYS} == ALWAYS, status


@pytest.mark.parametrize("path", ["/%00", "/a%00b", "/a?q=%00", "/%ff", "/a?q=%ff", "/%ed%a0%80"])
async def test_addresses_that_cannot_be(port: int, path: str) -> None:
    answer = await raw(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 422")
    assert b"application/problem+json" in answer


async def test_what_is_no_http(port: int) -> None:
    for line in (b"hello\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"):
        answer = await raw(port, line, half_close=True)
        assert answer.startswith(b"HTTP/1.1 4"), line
        assert b"application/problem+json" in answer, line
