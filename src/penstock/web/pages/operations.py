"""Pages of the running system: `/jobs`, `/fleet`, `/schedules` and `/inbox`. Each reads and acts by the routes of the API.

`/jobs` shows lanes, pauses, live jobs, and dead letters by cause; `/fleet` workers with their leases and pools, the
connections that they share, limits and breakers; `/schedules` rules and their next ticks; `/inbox` sources, and messages that
wait or have failed.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Query, Request, Response

from penstock.engine import connections_needed, read_budget
from penstock.engine.inspect import MOST_COUNTED, count_states
from penstock.web.api import fleet, jobs, sources
from penstock.web.dependencies import Admins, Reads, Storable, Writes
from penstock.web.pages.render import back, show

job_routes = APIRouter(prefix="/jobs", include_in_schema=False)
fleet_routes = APIRouter(prefix="/fleet", include_in_schema=False)
schedule_routes = APIRouter(prefix="/schedules", include_in_schema=False)
inbox_routes = APIRouter(prefix="/inbox", include_in_schema=False)

PAGE = 50
MOST_CAUSES = 50
Text = Annotated[Storable, Form(max_length=500)]
Needed = Annotated[Storable, Form(min_length=1, max_length=500)]


# -- jobs -----------------------------------------------------------------------------------------------------------


@job_routes.get("", response_class=Response)
async def list_jobs(
    caller: Reads,
    request: Request,
    *,
    state: Annotated[Literal["", "ready", "later", "running", "waiting", "dead"], Query()] = "",
    kind: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
) -> Response:
    """The queue."""
    caller.needs_fleet()
    states = await caller.app.database.pool.repeat(count_states)
    states["ready"] = min(states["ready"] + states.pop("quarantined"), MOST_COUNTED)
    found = await jobs.list_jobs(caller, state=state or None, kind=kind or None, after=after, limit=PAGE)
    return show(
        request,
        caller,
        "jobs.html",
        states=states,
        most_counted=MOST_COUNTED,
        lanes=await jobs.list_lanes(caller),
        pauses=await jobs.list_pauses(caller),
        causes=await jobs.list_causes(caller, limit=MOST_CAUSES),
        found=found,
        filters={"state": state, "kind": kind},
    )


@job_routes.get("/{job}", response_class=Response)
async def show_job(caller: Reads, request: Request, job: jobs.JobNumber) -> Response:
    """One job."""
    return show(request, caller, "job.html", job=await jobs.show_job(caller, job))


@job_routes.post("/pause", response_class=Response)
async def pause(caller: Admins, what: Annotated[jobs.What, Form()], name: Needed, reason: Text = "") -> Response:
    """Claim nothing more of it."""
    await jobs.pause(caller, jobs.Pause(what=what, name=name, reason=reason or "paused by hand"))
    return back("/jobs", "paused")


@job_routes.post("/resume", response_class=Response)
async def resume(caller: Admins, what: Annotated[jobs.What, Form()], name: Needed) -> Response:
    """Go on."""
    await jobs.resume(caller, what, name)
    return back("/jobs", "resumed")


@job_routes.post("/redrive", response_class=Response)
async def redrive(caller: Admins, fingerprint: Needed, force: Annotated[bool, Form()] = False) -> Response:
    """Another chance, in stages: the page of the job that gives it shows how far it is."""
    started = await jobs.redrive_jobs(caller, jobs.Redrive(fingerprint=fingerprint, force=force))
    return back("/jobs", "nothing") if started.job is None else back(f"/jobs/{started.job}", "redriven")


@job_routes.post("/discard", response_class=Response)
async def discard(caller: Admins, fingerprint: Needed, reason: Needed) -> Response:
    """Give them up."""
    done = await jobs.discard_jobs(caller, jobs.Discard(fingerprint=fingerprint, reason=reason))
    return back("/jobs", "discarded" if done.jobs else "nothing")


@job_routes.post("/{job}/cancel", response_class=Response)
async def cancel(caller: Admins, job: jobs.JobNumber) -> Response:
    """Cancel one."""
    await jobs.cancel_job(caller, job)
    return back(f"/jobs/{job}", "cancelled")


# -- fleet ----------------------------------------------------------------------------------------------------------


@fleet_routes.get("", response_class=Response)
async def show_fleet(caller: Reads, request: Request) -> Response:
    """Who works."""
    workers = await fleet.list_workers(caller, gone_within=3600)
    pooled = caller.app.database.endpoint.address.pooled
    need = connections_needed(caller.app.settings.pool.size, pooled=pooled)
    budget = await caller.app.database.pool.repeat(read_budget, need, pooled=pooled)
    return show(request, caller, "fleet.html", workers=workers, budget=budget, limits=await fleet.list_limits(caller))


@fleet_routes.post("/close", response_class=Response)
async def close_breaker(caller: Admins, limit: Needed) -> Response:
    """Let calls through again."""
    await fleet.close_breaker(caller, limit)
    return back("/fleet", "closed")


# -- schedules ------------------------------------------------------------------------------------------------------


@schedule_routes.get("", response_class=Response)
async def list_schedules(caller: Reads, request: Request) -> Response:
    """All of them."""
    return show(request, caller, "schedules.html", schedules=await fleet.list_schedules(caller))


@schedule_routes.post("/{action}", response_class=Response)
async def change_schedule(
    caller: Admins, action: Literal["run", "pause", "resume", "remove"], name: Needed, fairness_key: Needed
) -> Response:
    """Run it now, pause, resume, remove."""
    if action == "run":
        await fleet.run_now(caller, name, fairness_key)
        return back("/schedules", "run")
    if action == "remove":
        await fleet.remove_one(caller, name, fairness_key)
        return back("/schedules", "removed")
    await (fleet.pause_one if action == "pause" else fleet.resume_one)(caller, name, fairness_key)
    return back("/schedules", f"{action}d")


# -- sources and messages -------------------------------------------------------------------------------------------


@inbox_routes.get("", response_class=Response)
async def list_sources(
    caller: Reads,
    request: Request,
    *,
    source: Annotated[str, Query(max_length=500)] = "",
    state: Annotated[Literal["", "waiting", "taken", "failed"], Query()] = "",
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
) -> Response:
    """Sources and messages."""
    return show(
        request,
        caller,
        "inbox.html",
        sources=await sources.list_sources(caller),
        found=await sources.list_messages(caller, source=source or None, state=state or None, after=after, limit=PAGE),
        filters={"source": source, "state": state},
    )


@inbox_routes.post("/{message}/retry", response_class=Response)
async def retry_message(caller: Writes, message: Annotated[int, Path(ge=1, lt=2**63)]) -> Response:
    """Another chance for a failed message."""
    await sources.retry_message(caller, message)
    return back("/inbox", "retried")
