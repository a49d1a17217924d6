"""A collection whose model is behind an address: its documents become ready, and wait while it is away."""

from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from penstock.documents import change_collection
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from tests.models.endpoint import Server, serve
from tests.pipelines.test_document import prepare, rows, working
from tests.web.serving import serving


def far(server: Server) -> dict[str, Any]:
    return {"far": {"url": f"http://127.0.0.1:{server.port}/v1", "model": "bge", "dimensions": 3}}


async def test_documents_and_questions_go_to_the_model(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, working(database_url, tmp_path, models=far(server)) as product:
        await change_collection(product.app, "papers", model="far")
        document = await prepare(product, "gate.txt", b"The gate is made of oak.")
        assert document.status == "ready"
        assert [len(body["input"]) for body in server.asked] == [1]
        assert [row["name"] for row in await rows(product, "select name from penstock.limits")] == ["model-far"]

        async with serving(make_app(product)) as port, aiohttp.ClientSession() as client:
            where = f"http://127.0.0.1:{port}/api/search?q=oak"
            async with client.get(where) as answer:
                assert [hit["name"] for hit in (await answer.json())["hits"]] == ["gate.txt"]
            server.says(500)
            async with client.get(where) as answer:
                problem = await answer.json()
                assert (answer.status, problem["status"]) == (503, 503)
                assert "far" in problem["detail"]


async def test_a_model_that_is_away_is_asked_again(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, working(database_url, tmp_path, models=far(server)) as product:

        async def not_yet(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            server.reply = server.well
            return web.Response(status=503)

        server.reply = not_yet
        await change_collection(product.app, "papers", model="far")
        document = await prepare(product, "gate.txt", b"The gate is made of oak.")
        assert document.status == "ready"
        assert len(server.asked) == 2
