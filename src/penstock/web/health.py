"""`/health/live`: this process answers. `/health/ready`: it can do its work; if not, 503 and the reasons."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from penstock.database import Database
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log, mask

routes = APIRouter(prefix="/health", tags=["health"])

READY_WITHIN = 2.0  # seconds: a probe must not wait for the deadline of a whole call


@routes.get("/live")
async def live() -> dict[str, str]:
    """The event loop runs."""
    return {"status": "live"}


@routes.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """The database answers in time."""
    problems = await find_problems(request.app.state.database)
    if problems and not request.app.state.door.keyless:  # anybody may ask: hosts and users are for the log
        log.warning("not ready", problems=problems)
        problems = ["The database does not answer."]
    status = "ready" if not problems else "not ready"
    return JSONResponse({"status": status, "problems": problems}, status_code=503 if problems else 200)


async def find_problems(database: Database) -> list[str]:
    """Why this process cannot work now, in sentences."""
    try:
        async with asyncio.timeout(READY_WITHIN), database.pool.session() as session:
            await session.fetchval("select 1")
    except TimeoutError:
        return [f"PostgreSQL did not answer within {READY_WITHIN:.0f} s."]
    except (DatabaseTrouble, DatabaseUnreachable) as error:
        return [mask(str(error))]
    return []
