"""The port of one worker: `/health/live`, `/health/ready` with reasons, and `/metrics`.

It runs on the worker's own event loop, so that a blocked loop does not answer at all, and says for a while afterwards that it
was blocked. The metrics are those of the process and, from PostgreSQL, those of the whole fleet.
"""

import asyncio
import contextlib
import socket
import time
from collections import deque
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

TICK = 0.1
BLOCKED_AFTER = 1.0  # seconds that a tick may be late
REMEMBERED = 10.0  # seconds for which a blocked loop is told


class Pulse:
    """How late the event loop was lately."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque()  # when, and by how much
        self._ticked_at = time.monotonic()

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._note()

    def _note(self) -> None:
        now = time.monotonic()
        late = now - self._ticked_at - TICK
        self._ticked_at = now
        if late > BLOCKED_AFTER:
            self._late.append((now, late))
        while self._late and now - self._late[0][0] > REMEMBERED:
            self._late.popleft()

    @property
    def worst(self) -> float:
        """Seconds that the loop was blocked at most, of late. A request may be served before the tick that was late."""
        pending = time.monotonic() - self._ticked_at - TICK
        return max([late for _, late in self._late] + [pending if pending > BLOCKED_AFTER else 0.0])


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
    app = FastAPI(title="Penstock worker", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
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
    if pulse.worst > BLOCKED_AFTER:
        problems.append(f"The event loop was blocked for {pulse.worst:.1f} s: a handler does not give way.")
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
