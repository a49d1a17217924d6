"""`/api/workers`, `/api/limits`, `/api/schedules`: who works, what they share, and what runs by the clock.

For who runs the fleet; changes are for administrators among those.
"""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from asyncpg import Record
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from penstock.database.tenancy import everybody
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.limits import list_limits as read_limits
from penstock.engine.permits import close_breaker as close
from penstock.engine.schedules import find_schedules, pause_schedule, remove_schedule, resume_schedule, run_schedule
from penstock.errors import BadValue, NotFound
from penstock.web.caller import Admins, Caller, Reads
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api", tags=["fleet"], responses=RESPONSES)

Share = Annotated[
    str | None, Query(max_length=500, description="Whose; needed if several shares have one of this name.")
]


class WorkerShown(BaseModel):
    """A worker process."""

    id: int
    name: str
    host: str
    pid: int
    version: str
    status: Literal["alive", "draining", "silent", "gone"]
    queues: list[str]
    kinds: list[str]
    slots: int
    running: int
    started_at: datetime
    beat_at: datetime
    lease_seconds: float = Field(description="After so long without a beat its jobs are taken over.")
    load: dict[str, Any] = Field(description="What it last said of itself: its pool, its code.")
    gone_at: datetime | None
    gone_why: str | None


class LimitShown(BaseModel):
    """A dependency that bears only so many calls at once, and its breaker."""

    name: str
    permits: int
    used: int
    granted: int
    waiting: int
    level: float = Field(description="Calls that the workers dare to have at once.")
    failures: int
    trips: int
    breaker: Literal["closed", "open", "probing"]
    opened_at: datetime | None
    rests_till: datetime | None
    reason: str | None
    kinds: list[str]
    workers: list[dict[str, Any]]


class ScheduleShown(BaseModel):
    """What runs by which rule."""

    name: str
    share: str
    rule: str
    timezone: str
    queue: str
    kind: str
    missed: str
    overlap: str
    origin: str = Field(description="code or api.")
    state: Literal["active", "overdue", "paused", "retired"]
    declared_at: datetime
    next_at: datetime | None
    last_at: datetime | None
    last_job: int | None
    fired: int
    skipped: int


class Run(BaseModel):
    """A job outside of the rule."""

    job: int


# -- workers and limits ---------------------------------------------------------------------------------------------


@routes.get("/workers")
async def list_workers(
    caller: Reads,
    gone_within: Annotated[int, Query(ge=0, le=604_800, description="Also those that left in so many seconds.")] = 3600,
) -> list[WorkerShown]:
    """Who works, and who left lately."""
    caller.needs_fleet()
    within = timedelta(seconds=gone_within)
    rows = await caller.app.database.pool.repeat(lambda session: fleet_sql.workers(session, gone_within=within))
    return [
        WorkerShown.model_validate(
            {
                **row,
                "load": json.loads(row["load"]),
                "status": _status(row),
                "lease_seconds": row["lease"].total_seconds(),
            }
        )
        for row in rows
    ]


def _status(row: Record) -> str:
    if row["gone_at"] is not None:
        return "gone"
    if row["silent_for"] > row["lease"]:
        return "silent"
    return "draining" if row["draining"] else "alive"


@routes.get("/limits")
async def list_limits(caller: Reads) -> list[LimitShown]:
    """The limits, who uses them, and their breakers."""
    caller.needs_fleet()
    found = await caller.app.database.pool.repeat(read_limits)
    return [LimitShown.model_validate(each.as_json()) for each in found]


@routes.post("/limits/{limit}/close", status_code=202)
async def close_breaker(caller: Admins, limit: str) -> LimitShown:
    """Let calls through again without waiting for a probe."""
    caller.needs_fleet()
    async with caller.app.transaction() as tx:
        await close(tx, limit)
    for each in await list_limits(caller):
        if each.name == limit:
            caller.product.announcer.tell()
            return each
    raise NotFound(f"There is no limit {limit}.")


# -- schedules ------------------------------------------------------------------------------------------------------


@routes.get("/schedules")
async def list_schedules(caller: Reads) -> list[ScheduleShown]:
    """The schedules by name."""
    caller.needs_fleet()
    rows = await caller.app.database.pool.repeat(find_schedules)
    return [ScheduleShown.model_validate(dict(row)) for row in rows]


@routes.post("/schedules/{schedule}/run", status_code=202)
async def run_now(caller: Admins, schedule: str, share: Share = None) -> Run:
    """Put one job of it in now, whatever its rule says."""
    found = await _find(caller, schedule, share)
    async with caller.app.transaction() as tx:
        number = await run_schedule(tx, found.name, found.share)
    if number is None:
        raise NotFound(f"There is no schedule {schedule} any more.")
    caller.product.announcer.tell()
    return Run(job=number)


@routes.post("/schedules/{schedule}/pause", status_code=202)
async def pause_one(caller: Admins, schedule: str, share: Share = None) -> ScheduleShown:
    """Let it fire no more until it is resumed; the ticks of the pause do not count as missed."""
    found = await _find(caller, schedule, share)
    async with caller.app.transaction() as tx:
        await pause_schedule(tx, found.name, found.share)
    caller.product.announcer.tell()
    return await _find(caller, found.name, found.share)


@routes.post("/schedules/{schedule}/resume", status_code=202)
async def resume_one(caller: Admins, schedule: str, share: Share = None) -> ScheduleShown:
    """Go on with the next tick."""
    found = await _find(caller, schedule, share)
    async with caller.app.transaction() as tx:
        await resume_schedule(tx, found.name, found.share)
    caller.product.announcer.tell()
    return await _find(caller, found.name, found.share)


@routes.delete("/schedules/{schedule}", status_code=204)
async def remove_one(caller: Admins, schedule: str, share: Share = None) -> None:
    """Remove one that was added by a call or is retired; one that code declares has to go there."""
    found = await _find(caller, schedule, share)
    async with caller.app.transaction() as tx:
        await remove_schedule(tx, found.name, found.share)
    caller.product.announcer.tell()


async def _find(caller: Caller, name: str, share: str | None) -> ScheduleShown:
    caller.needs_fleet()
    with everybody():
        rows = await caller.app.database.pool.repeat(lambda session: find_schedules(session, name, share))
    if len(rows) > 1:
        raise BadValue(f"Several shares have a schedule {name}: say which by share.")
    if not rows:
        raise NotFound(f"There is no schedule {name}: see the list for those that there are.")
    return ScheduleShown.model_validate(dict(rows[0]))
