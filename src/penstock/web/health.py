"""`/health/live`: this process answers. `/health/ready`: what it takes in will be worked on; if not, 503 and the reasons.

Not ready are an API without its database, without a live worker that serves documents, before a queue in which something waits
for longer than `api.stale_after`, and with an event loop that was blocked. It is for people and alerts: documents are accepted
all the same, so a load balancer asks `/health/live`. One look a second, however many ask.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from penstock.database import Database, Session
from penstock.engine.census import Wait, served_waits
from penstock.engine.wording import span
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.operations.gauges import count_serving
from penstock.telemetry import log, mask
from penstock.web.pulse import Pulse

T = TypeVar("T")

routes = APIRouter(prefix="/health", tags=["health"])

READY_WITHIN = 2.0  # seconds: a probe must not wait for the deadline of a whole call
FRESH = 1.0  # seconds for which an answer is good
AWAY = "The database does not answer."
NO_WORKER = "No live worker serves documents: start one with `penstock worker`, or everything with `penstock up`."


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen: why the database is away, or what it says."""

    away: str = ""
    serving: int = 0
    longest: Wait | None = None


class Readiness:
    """Whether the API can do its work. One for each process."""

    def __init__(self, database: Database, stale_after: timedelta) -> None:
        self._database = database
        self._stale_after = stale_after
        self._looking = asyncio.Lock()
        self._look = Look()
        self._looked_at = float("-inf")
        self.pulse = Pulse()

    async def find_problems(self, *, openly: bool) -> list[str]:
        """In sentences; not `openly`, without what only the owner should know, such as hosts, users and names."""
        async with self._looking:
            if time.monotonic() - self._looked_at > FRESH:
                self._look = await look(self._database)
                self._looked_at = time.monotonic()
                if self._look.away:
                    log.warning("not ready", problem=self._look.away)
        blocked = [f"{self.pulse.blocked}."] if self.pulse.blocked else []
        if self._look.away:
            return [self._look.away if openly else AWAY, *blocked]
        return [*self._find_waiting(openly=openly), *blocked]

    def _find_waiting(self, *, openly: bool) -> list[str]:
        problems = [] if self._look.serving else [NO_WORKER]
        longest = self._look.longest
        if longest is not None and longest.seconds > self._stale_after.total_seconds():
            whose = f" of the kind {longest.kind}" if openly else ""
            problems.append(
                f"A ready job{whose} has waited for {span(timedelta(seconds=longest.seconds))}, longer than "
                f"{span(self._stale_after)} (api.stale_after): `penstock doctor` says why."
            )
        return problems


async def look(database: Database) -> Look:
    """Two short statements."""

    async def read(session: Session) -> Look:
        serving, waits = await count_serving(session), await served_waits(session)
        return Look(serving=serving, longest=waits[0] if waits else None)

    found = await _ask(database, read)
    return Look(away=found) if isinstance(found, str) else found


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
    problems = await readiness.find_problems(openly=request.app.state.door.keyless)  # anybody may ask
    status = "ready" if not problems else "not ready"
    return JSONResponse({"status": status, "problems": problems}, status_code=503 if problems else 200)
