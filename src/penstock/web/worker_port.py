"""The port of one worker: `/health/live`, `/health/ready` with reasons, and `/metrics`.

It runs on the worker's own event loop, so that a blocked loop does not answer at all, and says for a while afterwards that it
was blocked. The metrics are those of the process and, from PostgreSQL, those of the whole fleet.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from penstock import __version__, telemetry
from penstock.database import Database
from penstock.engine.census import sql
from penstock.engine.lease import FENCE_AT
from penstock.engine.wording import span
from penstock.engine.worker import Worker
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.operations import FleetGauges
from penstock.web.health import find_problems
from penstock.web.listen import serve
from penstock.web.pulse import Pulse
from penstock.web.traced import UNTRACED


@contextlib.asynccontextmanager
async def open_port(listener: socket.socket, database: Database, worker: Worker | None) -> AsyncIterator[None]:
    """Answer on the listener while the block runs: also while the worker drains."""
    ended = asyncio.Event()
    pulse = Pulse()
    beating = asyncio.create_task(pulse.beat(), name="pulse")
    serving = asyncio.create_task(serve(make_worker_app(database, worker, pulse), listener, ended), name="port")
    try:
        yield
    finally:
        beating.cancel()
        ended.set()
        await serving


def make_worker_app(database: Database, worker: Worker | None, pulse: Pulse) -> FastAPI:
    """The three routes; without a worker (nothing to serve yet) readiness is the database's."""
    app = FastAPI(
        title="Penstock worker",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry=UNTRACED,
    )
    gauges = FleetGauges(database)

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health/ready")
    async def ready() -> JSONResponse:
        problems = await find_worker_problems(database, worker, pulse)
        status = "ready" if not problems else "not ready"
        return JSONResponse({"status": status, "problems": problems}, status_code=503 if problems else 200)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(telemetry.render_metrics() + await gauges.render(), media_type=telemetry.METRICS_TYPE)

    return app


async def find_worker_problems(database: Database, worker: Worker | None, pulse: Pulse) -> list[str]:
    """Why this worker cannot work now, in sentences."""
    problems = await find_problems(database)
    if pulse.blocked:
        problems.append(f"{pulse.blocked}: a handler does not give way.")
    if worker is not None and not problems:
        with contextlib.suppress(DatabaseTrouble, DatabaseUnreachable):  # it answered a moment ago
            problems += await _find_lease_problems(database, worker.worker_id)
    return problems


async def _find_lease_problems(database: Database, worker_id: int) -> list[str]:
    async with database.pool.session() as session:
        row = await sql.membership.first(session, worker_id=worker_id)
    if row is None:
        return ["The worker has not joined the fleet yet."]
    if row["gone_at"] is not None:
        return [f"The lease is lost, and others have the jobs: {row['gone_why']}."]
    if row["silent_for"] > row["lease"] * FENCE_AT:
        return [f"The lease of {span(row['lease'])} has not been renewed for {span(row['silent_for'])}."]
    return []
