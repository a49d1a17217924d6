"""`/jobs`: lanes with what waits, pauses, live jobs, and dead letters by cause with another chance in stages. All of it is
done by the routes of the API (web/engine.py)."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request, Response

from penstock.engine.census import MOST_COUNTED, count_states
from penstock.web import engine
from penstock.web.caller import Admins, Reads
from penstock.web.pages.look import back, show
from penstock.web.parameters import Storable

routes = APIRouter(prefix="/jobs", include_in_schema=False)

PAGE = 50
MOST_CAUSES = 50
Text = Annotated[Storable, Form(max_length=500)]
Needed = Annotated[Storable, Form(min_length=1, max_length=500)]


@routes.get("", response_class=Response)
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
    found = await engine.list_jobs(caller, state=state or None, kind=kind or None, after=after, limit=PAGE)
    return show(
        request,
        caller,
        "jobs.html",
        states=await caller.app.database.pool.repeat(count_states),
        most_counted=MOST_COUNTED,
        lanes=await engine.list_lanes(caller),
        pauses=await engine.list_pauses(caller),
        causes=await engine.list_causes(caller, limit=MOST_CAUSES),
        found=found,
        filters={"state": state, "kind": kind},
    )


@routes.get("/{job}", response_class=Response)
async def show_job(caller: Reads, request: Request, job: engine.JobNumber) -> Response:
    """One job."""
    return show(request, caller, "job.html", job=await engine.show_job(caller, job))


@routes.post("/pause", response_class=Response)
async def pause(caller: Admins, what: Annotated[engine.What, Form()], name: Needed, reason: Text = "") -> Response:
    """Claim nothing more of it."""
    await engine.pause(caller, engine.Pause(what=what, name=name, reason=reason or "paused by hand"))
    return back("/jobs", "paused")


@routes.post("/resume", response_class=Response)
async def resume(caller: Admins, what: Annotated[engine.What, Form()], name: Needed) -> Response:
    """Go on."""
    await engine.resume(caller, what, name)
    return back("/jobs", "resumed")


@routes.post("/redrive", response_class=Response)
async def redrive(caller: Admins, fingerprint: Needed, force: Annotated[bool, Form()] = False) -> Response:
    """Another chance, in stages: the page of the job that gives it shows how far it is."""
    started = await engine.redrive_jobs(caller, engine.Redrive(fingerprint=fingerprint, force=force))
    return back("/jobs", "nothing") if started.job is None else back(f"/jobs/{started.job}", "redriven")


@routes.post("/discard", response_class=Response)
async def discard(caller: Admins, fingerprint: Needed, reason: Needed) -> Response:
    """Give them up."""
    done = await engine.discard_jobs(caller, engine.Discard(fingerprint=fingerprint, reason=reason))
    return back("/jobs", "discarded" if done.jobs else "nothing")


@routes.post("/{job}/cancel", response_class=Response)
async def cancel(caller: Admins, job: engine.JobNumber) -> Response:
    """Cancel one."""
    await engine.cancel_job(caller, job)
    return back(f"/jobs/{job}", "cancelled")
