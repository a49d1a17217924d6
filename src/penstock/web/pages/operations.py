"""Pages of the running system: `/jobs`, `/fleet`, `/schedules` and `/inbox`. Each reads and acts by the routes of the API.

`/jobs` shows queues, pauses, live jobs, and dead letters by cause; `/jobs/finished` the history; `/fleet` workers with their
leases and pools, the connections that they share, limits and breakers; `/schedules` rules and their next ticks; `/inbox`
sources, and messages that wait or have failed. An action answers with the page that it was on.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Path, Query, Request, Response

from penstock.database import Session, all_tenants
from penstock.engine import connections_needed, read_budget
from penstock.engine.inspect import (
    MOST_COUNTED,
    OUTCOMES,
    KeptStep,
    QueueHistory,
    count_states,
    durations_by_kind,
    ended_by_queue,
    list_finished,
    list_steps,
    running_by_stage,
)
from penstock.errors import BadJob, NotFound, Refused, WrongState
from penstock.web.api import fleet, jobs, sources
from penstock.web.dependencies import Admins, Caller, Reads, Storable, Writes
from penstock.web.health import acknowledge_finding
from penstock.web.pages.charts import Column, Stretch
from penstock.web.pages.overview import CameFrom, back_to_overview
from penstock.web.pages.render import back, query, show

job_routes = APIRouter(prefix="/jobs", include_in_schema=False)
fleet_routes = APIRouter(prefix="/fleet", include_in_schema=False)
schedule_routes = APIRouter(prefix="/schedules", include_in_schema=False)
inbox_routes = APIRouter(prefix="/inbox", include_in_schema=False)

PAGE = 50
MOST_CAUSES = 50
MINUTES = 60  # of a queue's chart
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
    cause: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The queues; `cause` is the fingerprint of dead letters whose retry was refused."""
    return await _show_jobs(caller, request, {"state": state, "kind": kind}, after=after, cause=cause)


async def _show_jobs(
    caller: Caller, request: Request, filters: dict[str, str], *, after: int = 0, cause: str = "", fault: str = ""
) -> Response:
    caller.needs_fleet()
    states = await caller.app.database.pool.repeat(count_states)
    states["ready"] = min(states["ready"] + states.pop("quarantined"), MOST_COUNTED)
    chosen: Any = {name: value or None for name, value in filters.items()}
    found = await jobs.list_jobs(caller, **chosen, after=after, limit=PAGE)
    lanes = await jobs.list_lanes(caller)
    ended, stages, durations = await caller.app.database.pool.repeat(_read_load)
    return show(
        request,
        caller,
        "jobs.html",
        status=422 if fault else 200,
        fault=fault,
        states=states,
        most_counted=MOST_COUNTED,
        lanes=lanes,
        pauses=await jobs.list_pauses(caller),
        causes=await jobs.list_causes(caller, limit=MOST_CAUSES),
        queues=_queues(lanes, stages, ended),
        stages=stages,
        durations=durations,
        found=found,
        refused_cause=cause,
        filters=filters,
    )


async def _read_load(session: Session) -> tuple[Any, Any, Any]:
    return await ended_by_queue(session), await running_by_stage(session), await durations_by_kind(session)


def _queues(lanes: Sequence[jobs.Lane], stages: Sequence[Any], ended: Sequence[QueueHistory]) -> list[dict[str, Any]]:
    """For each queue: what is ready, what runs, and the jobs that ended minute by minute."""
    names = sorted({each.queue for each in (*lanes, *stages, *ended)})
    histories = {each.queue: each.minutes for each in ended}
    return [
        {
            "name": name,
            "ready": sum(each.ready for each in lanes if each.queue == name),
            "running": sum(each.running for each in stages if each.queue == name),
            "ended": sum(histories.get(name, {}).values()),
            "columns": _minutes(histories.get(name, {})),
        }
        for name in names
    ]


def _minutes(counted: Mapping[datetime, int]) -> list[Column]:
    last = datetime.now(UTC).replace(second=0, microsecond=0)
    times = [last - timedelta(minutes=back) for back in range(MINUTES - 1, -1, -1)]
    return [Column((("ready", counted.get(at, 0)),), f"{at:%H:%M} UTC: {counted.get(at, 0):,} ended") for at in times]


@job_routes.get("/finished", response_class=Response)
async def list_history(
    caller: Reads,
    request: Request,
    *,
    outcome: Annotated[Literal["", "done", "cancelled", "discarded"], Query()] = "",
    kind: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[int, Query(ge=1, lt=2**63)] = 2**63 - 1,
) -> Response:
    """The jobs that have ended, newest first."""
    caller.needs_fleet()
    found = await caller.app.database.pool.repeat(
        list_finished, outcome=outcome or None, kind=kind or None, before=before, most=PAGE
    )
    return show(
        request,
        caller,
        "jobs_finished.html",
        found=found,
        outcomes=OUTCOMES,
        first=before == 2**63 - 1,
        filters={"outcome": outcome, "kind": kind},
    )


@job_routes.get("/{job}", response_class=Response)
async def show_job(caller: Reads, request: Request, job: jobs.JobId) -> Response:
    """One job."""
    shown = await jobs.show_job(caller, job)
    with all_tenants():  # the results of steps are kept from requests; their names and times are for operators
        steps = await caller.app.database.pool.repeat(list_steps, job)
    return show(request, caller, "job.html", job=shown, timeline=tell_timeline(shown, steps))


def tell_timeline(job: jobs.JobDetails, steps: Sequence[KeptStep]) -> list[Stretch]:
    """How a job spent its time: waiting, each attempt, and the steps that are kept for the next one."""
    ended = job.finished_at or datetime.now(UTC)
    attempts = [_attempt(each) for each in job.attempts]
    if job.state == "running" and job.claimed_at is not None:
        attempts.append(Stretch(f"Attempt {job.attempt}", "processing", job.claimed_at, ended, "running"))
    begun = min((each.start for each in attempts), default=ended)
    stretches = [Stretch("Waiting", "queued", job.enqueued_at, max(begun, job.enqueued_at)), *attempts]
    for each in steps:
        start = each.made_at - timedelta(seconds=each.seconds)
        stretches.append(Stretch(f"Step {each.step}", "step", start, each.made_at))
    return sorted(stretches, key=lambda each: (each.start, each.tone == "step"))


def _attempt(attempt: Mapping[str, Any]) -> Stretch:
    start = datetime.fromisoformat(attempt["started_at"])
    end = start + timedelta(seconds=attempt["seconds"] or 0)
    outcome = attempt["outcome"]
    tone = "ready" if outcome == "done" else "failed" if outcome in {"failed", "dead", "lost"} else "queued"
    return Stretch(f"Attempt {attempt['number']}", tone, start, end, outcome)


@job_routes.post("/pause", response_class=Response)
async def pause(
    caller: Admins, request: Request, what: Annotated[jobs.What, Form()], name: Needed, reason: Text = ""
) -> Response:
    """Claim no new job of it; a name that is not known is refused on the page, with the nearest one."""
    try:
        await jobs.pause(caller, jobs.Pause(what=what, name=name, reason=reason or "paused by hand"))
    except (Refused, BadJob) as error:
        return await _show_jobs(caller, request, {"state": "", "kind": ""}, fault=str(error))
    return back("/jobs", "paused")


@job_routes.post("/resume", response_class=Response)
async def resume(
    caller: Admins, request: Request, what: Annotated[jobs.What, Form()], name: Needed, came_from: CameFrom = ""
) -> Response:
    """End a pause."""
    await jobs.resume(caller, what, name)
    return back_to_overview(request, "resumed") if came_from else back("/jobs", "resumed")


@job_routes.post("/redrive", response_class=Response)
async def redrive(caller: Admins, fingerprint: Needed, force: Annotated[bool, Form()] = False) -> Response:
    """Retry dead letters in stages; the page of the job that does it shows its progress.

    If nothing was deployed since they failed, the list answers that, with a button that retries all the same.
    """
    try:
        started = await jobs.redrive_jobs(caller, jobs.Redrive(fingerprint=fingerprint, force=force))
    except WrongState:
        return back(f"/jobs{query(cause=fingerprint)}", "unchanged")
    return back("/jobs", "nothing") if started.job is None else back(f"/jobs/{started.job}", "redriven")


@job_routes.post("/{job}/redrive", response_class=Response)
async def redrive_one(caller: Admins, job: jobs.JobId, force: Annotated[bool, Form()] = False) -> Response:
    """Retry one dead letter; a refusal is answered on its page, as above."""
    try:
        started = await jobs.redrive_jobs(caller, jobs.Redrive(ids=[job], force=force))
    except WrongState:
        return back(f"/jobs/{job}", "unchanged")
    return back(f"/jobs/{job}", "nothing") if started.job is None else back(f"/jobs/{started.job}", "redriven")


@job_routes.post("/{job}/discard", response_class=Response)
async def discard_one(caller: Admins, job: jobs.JobId, reason: Needed) -> Response:
    """Discard one dead letter."""
    done = await jobs.discard_jobs(caller, jobs.Discard(ids=[job], reason=reason))
    return back(f"/jobs/{job}", "discarded" if done.jobs else "nothing")


@job_routes.post("/discard", response_class=Response)
async def discard(caller: Admins, fingerprint: Needed, reason: Needed) -> Response:
    """Discard dead letters."""
    done = await jobs.discard_jobs(caller, jobs.Discard(fingerprint=fingerprint, reason=reason))
    return back("/jobs", "discarded" if done.jobs else "nothing")


@job_routes.post("/{job}/cancel", response_class=Response)
async def cancel(caller: Admins, job: jobs.JobId) -> Response:
    """Cancel one."""
    await jobs.cancel_job(caller, job)
    return back(f"/jobs/{job}", "cancelled")


# -- fleet ----------------------------------------------------------------------------------------------------------


@fleet_routes.get("", response_class=Response)
async def show_fleet(caller: Reads, request: Request) -> Response:
    """Workers, connections and limits."""
    workers = await fleet.list_workers(caller, gone_within=3600)
    pooled = caller.app.database.endpoint.address.pooled
    need = connections_needed(caller.app.settings.pool.size, pooled=pooled)
    budget = await caller.app.database.pool.repeat(read_budget, need, pooled=pooled)
    return show(request, caller, "fleet.html", workers=workers, budget=budget, limits=await fleet.list_limits(caller))


@fleet_routes.post("/close", response_class=Response)
async def close_breaker(caller: Admins, request: Request, limit: Needed, came_from: CameFrom = "") -> Response:
    """Let calls through again."""
    await fleet.close_breaker(caller, limit)
    return back_to_overview(request, "closed") if came_from else back("/fleet", "closed")


@fleet_routes.post("/acknowledge", response_class=Response)
async def acknowledge(caller: Admins, request: Request, finding: Needed) -> Response:
    """Acknowledge the findings of a name, for a day."""
    try:
        await acknowledge_finding(caller, finding)
    except NotFound:  # fixed since the page was shown
        return back_to_overview(request, "nothing")
    return back_to_overview(request, "acknowledged")


# -- schedules ------------------------------------------------------------------------------------------------------


@schedule_routes.get("", response_class=Response)
async def list_schedules(caller: Reads, request: Request) -> Response:
    """The schedules."""
    return show(request, caller, "schedules.html", schedules=await fleet.list_schedules(caller))


@schedule_routes.post("/{action}", response_class=Response)
async def change_schedule(
    caller: Admins,
    request: Request,
    action: Literal["run", "pause", "resume", "remove"],
    name: Needed,
    *,
    fairness_key: Text = "",
    came_from: CameFrom = "",
) -> Response:
    """Run it now, pause, resume, remove."""
    change = {"run": fleet.run_now, "pause": fleet.pause_one, "resume": fleet.resume_one, "remove": fleet.remove_one}
    await change[action](caller, name, fairness_key or None)
    did = action if action == "run" else f"{action}d"
    return back_to_overview(request, did) if came_from else back("/schedules", did)


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
    """Retry a failed message."""
    await sources.retry_message(caller, message)
    return back("/inbox", "retried")
