"""`/api/workers`, `/api/limits`, `/api/schedules`: the fleet, its limits, and its schedules.

Operators only; changes need the admin scope.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from penstock import engine
from penstock.database import Session, all_tenants
from penstock.engine.limits import LimitState
from penstock.engine.limits import close_breaker as close
from penstock.engine.limits import list_limits as read_limits
from penstock.errors import BadValue, NotFound
from penstock.web.dependencies import Admins, Caller, Reads
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api", tags=["fleet"], responses=RESPONSES)

FairnessKey = Annotated[
    str | None, Query(max_length=500, description="Needed if several fairness keys have a schedule of this name.")
]


class ScheduleRun(BaseModel):
    """A job that was enqueued outside the rule."""

    job: int


# -- workers and limits ---------------------------------------------------------------------------------------------


@routes.get("/workers")
async def list_workers(
    caller: Reads,
    gone_within: Annotated[
        int, Query(ge=0, le=604_800, description="Include those that left within so many seconds.")
    ] = 3600,
) -> list[engine.WorkerState]:
    """The live workers, and those that left lately."""
    caller.needs_fleet()
    within = timedelta(seconds=gone_within)
    return await caller.app.database.pool.repeat(engine.list_workers, within)


@routes.get("/limits")
async def list_limits(caller: Reads) -> list[LimitState]:
    """The limits, their use, and their breakers."""
    caller.needs_fleet()
    return await caller.app.database.pool.repeat(read_limits)


@routes.post("/limits/{limit}/close", status_code=202)
async def close_breaker(caller: Admins, limit: str) -> LimitState:
    """Let calls through again without waiting for a probe."""
    caller.needs_fleet()
    async with caller.app.transaction() as tx:
        await close(tx, limit)
    for each in await list_limits(caller):
        if each.name == limit:
            caller.product.notifier.notify()
            return each
    raise NotFound(f"Limit {limit} does not exist. `penstock limits list` shows all.")


# -- schedules ------------------------------------------------------------------------------------------------------


@routes.get("/schedules")
async def list_schedules(caller: Reads) -> list[engine.ScheduleState]:
    """The schedules by name."""
    caller.needs_fleet()
    return await caller.app.database.pool.repeat(engine.find_schedules)


@routes.post("/schedules/{schedule}/run", status_code=202)
async def run_now(caller: Admins, schedule: str, fairness_key: FairnessKey = None) -> ScheduleRun:
    """Enqueue one job of it now, regardless of its rule."""
    found = await _find(caller, schedule, fairness_key)
    async with caller.app.transaction() as tx:
        job = await engine.run_schedule(tx, found.name, found.fairness_key)
    if job is None:
        raise NotFound(f"Schedule {schedule} does not exist any more.")
    caller.product.notifier.notify()
    return ScheduleRun(job=job)


@routes.post("/schedules/{schedule}/pause", status_code=202)
async def pause_one(caller: Admins, schedule: str, fairness_key: FairnessKey = None) -> engine.ScheduleState:
    """Stop firing until it is resumed; the ticks of the pause do not count as missed."""
    return await _change(caller, schedule, fairness_key, engine.pause_schedule)


@routes.post("/schedules/{schedule}/resume", status_code=202)
async def resume_one(caller: Admins, schedule: str, fairness_key: FairnessKey = None) -> engine.ScheduleState:
    """Resume with the next tick."""
    return await _change(caller, schedule, fairness_key, engine.resume_schedule)


@routes.delete("/schedules/{schedule}", status_code=204)
async def remove_one(caller: Admins, schedule: str, fairness_key: FairnessKey = None) -> None:
    """Remove one that was added by the API or is retired; a schedule that code declares is removed there."""
    found = await _find(caller, schedule, fairness_key)
    async with caller.app.transaction() as tx:
        await engine.remove_schedule(tx, found.name, found.fairness_key)
    caller.product.notifier.notify()


async def _change(
    caller: Caller, name: str, fairness_key: str | None, change: Callable[[Session, str, str], Awaitable[bool]]
) -> engine.ScheduleState:
    found = await _find(caller, name, fairness_key)
    async with caller.app.transaction() as tx:
        await change(tx, found.name, found.fairness_key)
    caller.product.notifier.notify()
    return await _find(caller, found.name, found.fairness_key)


async def _find(caller: Caller, name: str, fairness_key: str | None) -> engine.ScheduleState:
    caller.needs_fleet()
    with all_tenants():
        found = await caller.app.database.pool.repeat(engine.find_schedules, name, fairness_key)
    if len(found) > 1:
        raise BadValue(f"Several fairness keys have a schedule {name}: name one by `fairness_key`.")
    if not found:
        raise NotFound(f"Schedule {name} does not exist. `penstock schedules list` shows all.")
    return found[0]
