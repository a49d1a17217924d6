"""Documents by their address: fetched by the server, and only from where it may go."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.web.conftest import Answer, Api

CONTENT = b"The flood of 1931 reached the second mark." * 1000


@pytest.fixture
async def site() -> AsyncIterator[int]:
    """A server with a file, and with a redirect to where nobody may go."""

    async def flood(request: web.Request) -> web.Response:
        return web.Response(body=CONTENT, content_type="text/plain")

    async def away(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data")

    application = web.Application()
    application.router.add_get("/flood.txt", flood)
    application.router.add_get("/away", away)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
def setting_overrides(site: int) -> dict[str, Any]:
    return {"fetch__private": "127.0.0.1/32", "fetch__ports": str(site)}


@pytest.fixture(autouse=True)
async def mill_collection(api: Api) -> None:
    await api.make("mill")


async def link(api: Api, body: str, name: str = "flood.txt") -> Answer:
    return await api.put(name, body.encode(), headers={"Content-Type": "application/vnd.penstock.link+json"})


async def test_a_link_becomes_a_document(api: Api, site: int) -> None:
    answer = await link(api, f'{{"url": "http://127.0.0.1:{site}/flood.txt"}}')
    assert answer.status == 202
    assert answer.json["digest"] == hashlib.sha256(CONTENT).hexdigest()
    assert (await link(api, f'{{"url": "http://127.0.0.1:{site}/flood.txt"}}')).status == 409


@pytest.mark.parametrize(
    ("path", "status"),
    [("/away", 422), ("/missing", 422)],
)
async def test_what_cannot_be_fetched_is_refused_and_leaves_nothing(
    api: Api, site: int, path: str, status: int
) -> None:
    answer = await link(api, f'{{"url": "http://127.0.0.1:{site}{path}"}}')
    assert (answer.status, answer.json["type"]) == (status, "urn:penstock:fetch-refused")
    assert await api.names() == []
    assert api.blobs() == []


@pytest.mark.parametrize("url", ["http://localhost:1/x", "file:///etc/passwd", "http://10.0.0.1/", "gopher://x/", ""])
async def test_only_where_the_server_may_go(api: Api, url: str) -> None:
    answer = await link(api, f'{{"url": "{url}"}}')
    assert (answer.status, answer.json["type"]) == (422, "urn:penstock:fetch-refused")


@pytest.mark.parametrize("body", ["", "no json", "[]", '{"url": 7}', '{"url": "http://x", "more": 1}', "[" * 9000])
async def test_a_body_that_is_no_link_is_told(api: Api, body: str) -> None:
    answer = await link(api, body)
    assert answer.status in {400, 422}
    assert "status" in answer.json


async def test_json_is_a_document_like_any_other(api: Api) -> None:
    answer = await api.put("a.json", b'{"url": "http://10.0.0.1/"}', headers={"Content-Type": "application/json"})
    assert answer.status == 202
