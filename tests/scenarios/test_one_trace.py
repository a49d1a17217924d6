"""An upload and its preparation are one trace, though two processes do them; both send their spans by OTLP."""

import gzip
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


@dataclass(frozen=True)
class Span:
    """What a process has sent."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    status: int


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[str, list[Span]]]:
    """A collector: where it listens, and what has come."""
    spans: list[Span] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            spans.extend(
                Span(
                    service,
                    each.name,
                    each.trace_id.hex(),
                    each.span_id.hex(),
                    each.parent_span_id.hex(),
                    each.status.code,
                )
                for scope in resource.scope_spans
                for each in scope.spans
            )
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", spans
    finally:
        await runner.cleanup()


async def test_one_trace_from_the_upload_to_the_index(product_processes: ProductProcesses) -> None:
    async with collecting() as (where, spans):
        api = await product_processes.start_api(OTEL_EXPORTER_OTLP_ENDPOINT=where)
        hand = await product_processes.start_worker(OTEL_EXPORTER_OTLP_ENDPOINT=where)
        await product_processes.get("/api/collections")
        url = f"{product_processes.address}/api/collections/papers/documents/a.txt"
        headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
        async with product_processes.http.put(url, data=b"A mill by the river.", headers=headers) as answer:
            assert answer.status == 202
            told = await answer.json()
        await product_processes.until("select exists (select from penstock.documents where state = 'ready')")
        [kept] = await product_processes.connection.fetch(
            "select args from penstock.job_history where id = $1", told["job"]
        )
        assert TRACE in kept["args"], "found again by `penstock jobs show`"
        for process in (api, hand.started):
            os.kill(process.pid, signal.SIGTERM)
            await process.end()

    ours = {span.name: span for span in spans if span.trace == TRACE}
    upload = ours["PUT /api/collections/{collection}/documents/{name:path}"]
    attempt = ours["attempt prepare_document"]
    assert (upload.service, upload.parent) == ("penstock-api", CALLER)
    assert (attempt.service, attempt.parent) == ("penstock-worker", upload.id)
    steps = {name: span for name, span in ours.items() if name.startswith("step ")}
    assert {"step read", "step chunk", "step embed", "step index"} <= steps.keys()
    assert {span.parent for span in steps.values()} == {attempt.id}
    assert not any("a.txt" in span.name for span in spans), "no name of a document leaves the machine"
    assert len([span for span in spans if span.service == "penstock-api"]) == 2, "one for each request"
    others = [span for span in spans if span.trace != TRACE]
    assert {span.name for span in others} >= {"GET /api/collections"}, (
        "what nobody asked for in this trace is another one"
    )


async def test_a_collector_that_is_away_keeps_nobody(product_processes: ProductProcesses) -> None:
    """Neither from working nor from ending; and what lets us in there is in no log."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        where = "http://127.0.0.1:{1}".format(*closed.getsockname())
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20zaunkoenig-im-winter"}
    api = await product_processes.start_api(OTEL_EXPORTER_OTLP_ENDPOINT=where, **headers)
    assert (await product_processes.put("a.txt", b"A mill by the river."))[0] == 202
    os.kill(api.pid, signal.SIGTERM)
    assert await api.end() == 0
    assert "zaunkoenig" not in api.printed
