"""Health, status and metrics of the API, and the port of a worker.

`/health/live`: this process answers. `/health/ready`: the documents that it accepts will be processed; if not, 503 and the
reasons: no database, no live worker that serves documents, a job that has waited longer than `api.stale_after`, or a blocked
event loop. It is for people and alerts: documents are accepted all the same, so a load balancer asks `/health/live`. The
database is checked once a second, however many clients ask. `/api/status` answers as `penstock status --json`, `/metrics` for
a scraper.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from penstock import __version__, telemetry
from penstock.database import Database, Session
from penstock.documents import count_documents
from penstock.engine import FENCE_AT, Worker, membership
from penstock.engine.inspect import LaneWait, served_waits
from penstock.errors import DatabaseTrouble, DatabaseUnreachable, NotAllowed
from penstock.operations import FleetGauges, count_serving, read_status
from penstock.telemetry import log, mask
from penstock.text import span
from penstock.web.dependencies import Reads
from penstock.web.middleware.errors import RESPONSES
from penstock.web.server import UNTRACED, LoopLag, serve

T = TypeVar("T")

routes = APIRouter(prefix="/health", tags=["health"])
status_routes = APIRouter(tags=["status"], responses=RESPONSES)

READY_WITHIN = 2.0  # seconds: a probe must not wait for the deadline of a whole call
FRESH = 1.0  # seconds for which an answer is good
AWAY = "The database does not answer."
NO_WORKER = "No live worker serves documents: start one with `penstock worker`, or everything with `penstock up`."


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """The last answer of the database, or why it does not answer."""

    away: str = ""
    serving: int = 0
    longest: LaneWait | None = None


class Readiness:
    """Whether the API can do its work. One for each process."""

    def __init__(self, database: Database, stale_after: timedelta) -> None:
        self._database = database
        self._stale_after = stale_after
        self._checking = asyncio.Lock()
        self._last = ReadinessCheck()
        self._checked_at = float("-inf")
        self.loop_lag = LoopLag()

    async def find_problems(self, *, openly: bool) -> list[str]:
        """In sentences; not `openly`, without what only the owner should know, such as hosts, users and names."""
        async with self._checking:
            if time.monotonic() - self._checked_at > FRESH:
                self._last = await check(self._database)
                self._checked_at = time.monotonic()
                if self._last.away:
                    log.warning("not ready", problem=self._last.away)
        blocked = [f"{self.loop_lag.blocked}."] if self.loop_lag.blocked else []
        if self._last.away:
            return [self._last.away if openly else AWAY, *blocked]
        return [*self._find_waiting(openly=openly), *blocked]

    def _find_waiting(self, *, openly: bool) -> list[str]:
        problems = [] if self._last.serving else [NO_WORKER]
        longest = self._last.longest
        if longest is not None and longest.seconds > self._stale_after.total_seconds():
            whose = f" of the kind {longest.kind}" if openly else ""
            problems.append(
                f"A ready job{whose} has waited for {span(timedelta(seconds=longest.seconds))}, longer than "
                f"{span(self._stale_after)} (api.stale_after): `penstock doctor` says why."
            )
        return problems


async def check(database: Database) -> ReadinessCheck:
    """Two short statements."""

    async def read(session: Session) -> ReadinessCheck:
        serving, waits = await count_serving(session), await served_waits(session)
        return ReadinessCheck(serving=serving, longest=waits[0] if waits else None)

    found = await _ask(database, read)
    return ReadinessCheck(away=found) if isinstance(found, str) else found


async def find_problems(database: Database) -> list[str]:
    """Why a process that only needs its database cannot work now, in sentences."""

    async def read(session: Session) -> None:
        await session.fetchval("select 1")

    found = await _ask(database, read)
    return [found] if isinstance(found, str) else []


async def _ask(database: Database, read: Callable[[Session], Awaitable[T]]) -> T | str:
    """What the database says, or the sentence that says why it does not."""
    try:
        async with asyncio.timeout(READY_WITHIN), database.pool.session() as session:
            return await read(session)
    except TimeoutError:
        return f"PostgreSQL did not answer within {READY_WITHIN:.0f} s."
    except (DatabaseTrouble, DatabaseUnreachable) as error:
        return mask(str(error))


@routes.get("/live")
async def live() -> dict[str, str]:
    """The event loop runs."""
    return {"status": "live"}


@routes.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """The database answers in time, a worker serves documents, and nothing waits for too long."""
    readiness: Readiness = request.app.state.readiness
    problems = await readiness.find_problems(openly=request.app.state.authenticator.keyless)
    return _answer(problems)


def _answer(problems: list[str]) -> JSONResponse:
    status = "ready" if not problems else "not ready"
    return JSONResponse({"status": status, "problems": problems}, status_code=503 if problems else 200)


# -- status and metrics ---------------------------------------------------------------------------------------------


class Status(BaseModel):
    """Counts, workers, and what is wrong."""

    documents: dict[str, int] = Field(description="By status: queued, processing, ready, failed, deleted.")
    jobs: dict[str, dict[str, int]] = Field(description="By state: count, leased (a live worker has it), attempted.")
    workers: list[dict[str, Any]]
    problems: list[str] = Field(description="In sentences, with what to do.")


@status_routes.get("/api/status")
async def show_status(
    caller: Reads, collection: Annotated[str | None, Query(description="Only what belongs to it.")] = None
) -> Status:
    """How things are. Workers, jobs and problems are told to keys of the tenant `default` that are for all collections."""
    if collection is not None:
        await caller.find_collection(collection)
    if caller.runs_fleet:
        return Status.model_validate(await read_status(caller.app, collection=collection))
    if collection is None:
        counted = await caller.count_documents()
    else:
        counted = await count_documents(caller.app, collection, tenant=caller.tenant)
    return Status(documents=counted, jobs={}, workers=[], problems=[])


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
async def open_port(listener: socket.socket, database: Database, worker: Worker | None) -> AsyncIterator[None]:
    """Answer on the listener while the block runs: also while the worker drains."""
    ended = asyncio.Event()
    loop_lag = LoopLag()
    measuring = asyncio.create_task(loop_lag.measure(), name="loop lag")
    serving = asyncio.create_task(serve(make_worker_app(database, worker, loop_lag), listener, ended), name="port")
    try:
        yield
    finally:
        measuring.cancel()
        ended.set()
        await serving


def make_worker_app(database: Database, worker: Worker | None, loop_lag: LoopLag) -> FastAPI:
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
        problems = await find_worker_problems(database, worker, loop_lag)
        return _answer(problems)

    @app.get("/metrics")
    async def metrics() -> Response:
        return await _render(gauges)

    return app


async def find_worker_problems(database: Database, worker: Worker | None, loop_lag: LoopLag) -> list[str]:
    """Why this worker cannot work now, in sentences."""
    problems = await find_problems(database)
    if loop_lag.blocked:
        problems.append(f"{loop_lag.blocked}: a handler does not give way.")
    if worker is not None and not problems:
        with contextlib.suppress(DatabaseTrouble, DatabaseUnreachable):  # it answered a moment ago
            problems += await _find_lease_problems(database, worker.worker_id)
    return problems


async def _find_lease_problems(database: Database, worker_id: int) -> list[str]:
    async with database.pool.session() as session:
        row = await membership(session, worker_id)
    if row is None:
        return ["The worker has not joined the fleet yet."]
    if row["gone_at"] is not None:
        return [f"The lease is lost, and others have the jobs: {row['gone_why']}."]
    if row["silent_for"] > row["lease"] * FENCE_AT:
        return [f"The lease of {span(row['lease'])} has not been renewed for {span(row['silent_for'])}."]
    return []
