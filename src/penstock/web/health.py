"""Health, status and metrics of the API, and the port of a worker.

`/health/live`: this process answers. `/health/ready`: this process can do its work; if not, 503 and the reasons: no database, a
disk that is nearly full, a blob store that cannot be written to, a lost lease, or a blocked event loop; for the API also that
no running worker serves documents, or that a job has waited longer than `api.stale_after`. The reasons are findings of
`doctor` (operations/doctor/process.py). Readiness is for people and alerts: documents are accepted all the same, so a load
balancer asks `/health/live`. `/api/status` answers as `penstock status --json`, `/api/findings` with the findings of `doctor`,
`/metrics` for a scraper.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from penstock import __version__, telemetry
from penstock.database import Database, all_tenants
from penstock.documents import UnreadDocument, count_documents
from penstock.engine import Worker
from penstock.errors import NotAllowed
from penstock.operations import (
    ACKNOWLEDGED_FOR,
    ApiCheck,
    Finding,
    FleetGauges,
    WorkerCheck,
    acknowledge,
    examine_session,
    read_status,
    read_unread,
)
from penstock.web.dependencies import Admins, Caller, Reads
from penstock.web.middleware.errors import RESPONSES
from penstock.web.server import UNTRACED, LoopLag, serve

routes = APIRouter(prefix="/health", tags=["health"])
status_routes = APIRouter(tags=["status"], responses=RESPONSES)

YEAR = 365 * 86_400  # seconds
# The reasons for clients without a key, which must not learn of hosts, folders, users and names.
PUBLIC = {
    "blobs-unwritable": "Documents cannot be stored.",
    "database-away": "The database does not answer.",
    "disk-full": "A disk is nearly full.",
    "no-document-worker": "No running worker serves documents.",
    "no-worker": "No worker is running.",
    "old-job": "A ready job has waited for too long.",
    "storage-away": "A disk or the blob store does not answer.",
}


class Readiness:
    """Whether the API can do its work. One for each process."""

    def __init__(self, check: ApiCheck) -> None:
        self._check = check
        self.loop_lag = LoopLag()

    async def find_problems(self, *, openly: bool) -> list[str]:
        """In sentences; not `openly`, without what only the owner should know, such as hosts, users and names."""
        findings = await self._check.findings()
        blocked = [f"{self.loop_lag.blocked}."] if self.loop_lag.blocked else []
        return [*(each.sentence if openly else PUBLIC[each.name] for each in findings), *blocked]


@routes.get("/live")
async def live() -> dict[str, str]:
    """The event loop runs."""
    return {"status": "live"}


@routes.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """The process has no fault, a worker serves documents, and no job waits for too long."""
    readiness: Readiness = request.app.state.readiness
    problems = await readiness.find_problems(openly=request.app.state.authenticator.keyless)
    return _answer(problems)


def _answer(problems: list[str]) -> JSONResponse:
    status = "ready" if not problems else "not ready"
    return JSONResponse({"status": status, "problems": problems}, status_code=503 if problems else 200)


# -- status, findings and metrics -----------------------------------------------------------------------------------


class Status(BaseModel):
    """Counts, workers, findings, and documents that could not be read."""

    documents: dict[str, int] = Field(description="By status: queued, processing, ready, failed, deleted.")
    jobs: dict[str, dict[str, int]] = Field(description="By state: count, leased (a live worker has it), attempted.")
    workers: list[dict[str, Any]]
    findings: list[Finding] = Field(description="Of `penstock doctor`, the most urgent first; for operators.")
    unread: list[UnreadDocument] = Field(
        description="The newest that could not be read because of their content: replace or dismiss them."
    )
    unread_count: int


@status_routes.get("/api/status")
async def show_status(
    caller: Reads, collection: Annotated[str | None, Query(description="Only what belongs to it.")] = None
) -> Status:
    """Counts and problems. Jobs, workers and findings are for operators: keys of the tenant `default` for all collections."""
    if collection is not None:
        await caller.find_collection(collection)
    if caller.runs_fleet:
        return Status.model_validate(await read_status(caller.app, collection=collection))
    if collection is None:
        counted = await caller.count_documents()
    else:
        counted = await count_documents(caller.app, collection, tenant=caller.tenant)
    seen = None if caller.principal.collections is None else [each.id for each in await caller.collections()]
    unread = await read_unread(caller.app, collection=collection, among=seen, tenant=caller.tenant)
    return Status(documents=counted, jobs={}, workers=[], findings=[], **unread)


@status_routes.get("/api/findings")
async def list_findings(caller: Reads) -> list[Finding]:
    """The findings of `penstock doctor`, the most urgent first; without those that need connections of their own."""
    caller.needs_fleet()
    return await _examine(caller)


@status_routes.post("/api/findings/{finding}/acknowledge")
async def acknowledge_finding(
    caller: Admins,
    finding: str,
    seconds: Annotated[int, Query(ge=1, le=YEAR, description="How long it is acknowledged.")] = int(
        ACKNOWLEDGED_FOR.total_seconds()
    ),
) -> list[Finding]:
    """Acknowledge the findings of a name: they are not a problem until they change, or until the time is over."""
    caller.needs_fleet()
    findings = await _examine(caller)
    with all_tenants():
        async with caller.app.transaction() as tx:
            return await acknowledge(
                tx, findings, finding, lasting=timedelta(seconds=seconds), by=caller.principal.name
            )


async def _examine(caller: Caller) -> list[Finding]:
    app = caller.app
    with all_tenants():
        async with app.database.pool.session() as session:
            return await examine_session(session, app.settings, pooled=app.database.endpoint.address.pooled)


@status_routes.get("/metrics", response_class=Response, include_in_schema=False)
async def show_metrics(caller: Reads, request: Request) -> Response:
    """Those of this process and, from the database, those of the fleet."""
    if not caller.runs_fleet:
        raise NotAllowed("Metrics cover all tenants: use a key of the tenant `default` for all collections.")
    return await _render(request.app.state.gauges)


async def _render(gauges: FleetGauges) -> Response:
    return Response(telemetry.render_metrics() + await gauges.render(), media_type=telemetry.METRICS_TYPE)


# -- the port of a worker -------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def open_port(
    listener: socket.socket, database: Database, worker: Worker, *, documents: bool
) -> AsyncIterator[None]:
    """Answer on the listener while the block runs: also while the worker drains. `documents`: the worker serves them."""
    ended = asyncio.Event()
    loop_lag = LoopLag()
    measuring = asyncio.create_task(loop_lag.measure(), name="loop lag")
    serving = asyncio.create_task(
        serve(make_worker_app(database, WorkerCheck(database, worker, documents=documents), loop_lag), listener, ended),
        name="port",
    )
    try:
        yield
    finally:
        measuring.cancel()
        ended.set()
        await serving


def make_worker_app(database: Database, check: WorkerCheck, loop_lag: LoopLag) -> FastAPI:
    """The three routes of the port of a worker."""
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
        problems = [finding.sentence for finding in await check.findings()]
        if loop_lag.blocked:
            problems.append(f"{loop_lag.blocked}: a handler computes or blocks without yielding.")
        return _answer(problems)

    @app.get("/metrics")
    async def metrics() -> Response:
        return await _render(gauges)

    return app
