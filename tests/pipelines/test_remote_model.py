"""A collection whose model is behind an address: its documents become ready, and wait while it is away."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from penstock.documents import change_collection, list_documents
from penstock.engine.limits.exchange import close_breaker
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from tests.models.endpoint import Server, serve
from tests.product_with_worker import prepare, product_with_worker, rows
from tests.web.api_server import serving


def far(server: Server) -> dict[str, Any]:
    return {"far": {"url": f"http://127.0.0.1:{server.port}/v1", "model": "bge", "dimensions": 3}}


async def test_documents_and_questions_go_to_the_model(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with serve() as server, product_with_worker(database_url, tmp_path, models=far(server)) as product:
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
    async with serve() as server, product_with_worker(database_url, tmp_path, models=far(server)) as product:

        async def not_yet(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            server.reply = server.well
            return web.Response(status=503)

        server.reply = not_yet
        await change_collection(product.app, "papers", model="far")
        document = await prepare(product, "gate.txt", b"The gate is made of oak.")
        assert document.status == "ready"
        assert len(server.asked) == 2


async def test_an_outage_of_the_model_costs_a_document_no_try(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """It has 3 retries, and outlasts more failures than that; meanwhile it is processing."""
    async with serve() as server, product_with_worker(database_url, tmp_path, models=far(server)) as product:
        await change_collection(product.app, "papers", model="far")
        server.says(500)
        preparing = asyncio.create_task(prepare(product, "gate.txt", b"The gate is made of oak."))
        for tries in range(1, 6):
            job = await until_tried(product, tries)
            assert job["failures"] == 0
            await rows(product, "update penstock.test_clock set shift = shift + $1", timedelta(seconds=1.2 * 2**tries))
        [waiting] = await list_documents(product.app, collection="papers")
        assert waiting.status == "processing"
        server.reply = server.well
        while not await rows(product, "select from penstock.limits where opened_at is not null"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        async with product.app.database.pool.transaction() as tx:
            await close_breaker(tx, "model-far")
        while not preparing.done():  # it may have been sent away until the end of the rest
            await rows(product, "update penstock.test_clock set shift = shift + interval '1 minute'")
            await asyncio.wait([preparing], timeout=0.5)
        assert (await preparing).status == "ready"


async def until_tried(product: Product, tries: int) -> Any:
    query = "select * from penstock.jobs where state = 'later' and attempt = $1"
    async with asyncio.timeout(20):
        while not (found := await rows(product, query, tries)):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.02)
    return found[0]
