"""`/api/jobs`, `/api/lanes`, `/api/dead`, `/api/pauses`: the jobs of all tenants. The fleet itself is in fleet.py.

Operators only; changes need the admin scope. They are made for all tenants: a document follows its job, whichever tenant owns
it.
"""

import json
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.database import all_tenants
from penstock.engine import find_job, inspect, pauses
from penstock.engine.inspect import JobFilter, Selection, dead_by_cause, dead_jobs, discard, redrives_of, waiting_lanes
from penstock.errors import NotAllowed, NotFound, NothingChanged, WrongState
from penstock.web.dependencies import Admins, AfterNumber, Limit, Page, Reads, Storable, Why
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api", tags=["engine"], responses=RESPONSES)
why_routes = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=RESPONSES)

JobState = Literal["ready", "later", "running", "waiting", "dead"]
Name = Annotated[str | None, Query(max_length=500, description="Only of this name.")]
JobId = Annotated[int, Path(ge=1, lt=2**63, description="The job's id.")]
What = Literal["queue", "kind", "fairness_key"]


class JobSummary(BaseModel):
    """A live job."""

    id: int
    queue: str
    kind: str
    fairness_key: str
    state: str
    priority: int
    attempt: int
    failures: int
    run_at: datetime | None
    enqueued_at: datetime
    worker_id: int | None
    progress: dict[str, Any] | None
    error: str | None = Field(description="The last failure, in a sentence.")


class JobDetails(BaseModel):
    """A job, live or from the history, and the explanation of its state."""

    id: int
    queue: str
    kind: str
    fairness_key: str
    state: str = Field(
        description="ready, later, running, waiting, dead; done, cancelled or discarded when it is over."
    )
    priority: int
    attempt: int
    failures: int
    worker_id: int | None
    claimed_at: datetime | None
    run_at: datetime | None
    enqueued_at: datetime
    finished_at: datetime | None
    unique_key: str | None
    args: Any
    result: Any
    progress: Any
    error: dict[str, Any] | None = Field(description="class, message, step, traceback.")
    attempts: list[dict[str, Any]]
    why: str

    @classmethod
    def of(cls, job: dict[str, Any], why: str) -> Self:
        return cls.model_validate({**job, "attempts": job["attempts"] or [], "why": why})


class Lane(BaseModel):
    """Ready jobs of one queue, kind and fairness key."""

    model_config = ConfigDict(from_attributes=True)

    queue: str
    kind: str
    fairness_key: str
    ready: int = Field(description="Ready jobs, counted to 10,000 for each priority.")
    oldest_id: int
    oldest_seconds: float
    paused: bool
    open: bool = Field(description="Whether a live worker may take them now.")
    shut: bool = Field(description="A limit or its breaker holds them.")


class Cause(BaseModel):
    """A cause of dead letters."""

    fingerprint: str
    count: int
    kind: str
    error_class: str | None = Field(validation_alias="class", serialization_alias="class")
    message: str | None
    code: str | None = Field(description="The release of the code that they failed in.")
    first_id: int
    last_id: int
    unwanted: bool = Field(description="Their parents are over: no job needs their results.")
    redrive: int | None = Field(None, description="The job that retries them now.")
    redrive_progress: dict[str, Any] | None = Field(None, description="done, total, and a note on the stage.")


class DeadJob(BaseModel):
    """A dead letter."""

    id: int
    kind: str
    fairness_key: str
    fingerprint: str
    error: dict[str, Any]
    attempt: int
    failures: int
    enqueued_at: datetime


class DeadSelection(BaseModel):
    """Dead jobs, chosen by ids, a fingerprint or a kind."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[int, Field(ge=1, lt=2**63)]] = Field(default=[], max_length=1000)
    fingerprint: Storable | None = Field(None, max_length=200)
    kind: Storable | None = Field(None, max_length=200)

    @property
    def selection(self) -> Selection:
        return Selection(tuple(self.ids), self.fingerprint or None, self.kind or None)


class Redrive(DeadSelection):
    """A retry of all of them: one, then ten, then the rest, until the same failure returns."""

    force: bool = Field(False, description="Retry although nothing was deployed since the failure.")


class StartedRedrive(BaseModel):
    """The job that retries them; its progress and its result show how far it came."""

    model_config = ConfigDict(from_attributes=True)

    job: int | None = Field(description="Its id, for /api/jobs/{job}; null if no dead job matches.")
    jobs: int = Field(description="Jobs that it will retry.")
    created: bool = Field(description="False: it was running already.")


class Discard(DeadSelection):
    """Dead jobs to discard."""

    reason: Storable = Field(min_length=1, max_length=1000, description="Kept in the history.")


class JobIds(BaseModel):
    """The jobs that were changed."""

    jobs: list[int]


class Pause(BaseModel):
    """A queue, kind or fairness key of which no new job is claimed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    what: What
    name: Storable = Field(min_length=1, max_length=500)
    reason: Storable = Field("paused by hand", max_length=1000)


class ActivePause(Pause):
    """A pause, and since when."""

    since: datetime


# -- jobs -----------------------------------------------------------------------------------------------------------


@routes.get("/jobs")
async def list_jobs(
    caller: Reads,
    *,
    state: JobState | None = None,
    kind: Name = None,
    queue: Name = None,
    fairness_key: Name = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[JobSummary, int]:
    """The live jobs by id; dead ones only with state=dead. A page may have fewer than `limit` and still have a `next`."""
    caller.needs_fleet()
    wanted = JobFilter(state, kind, queue, fairness_key)
    found = await caller.app.database.pool.repeat(inspect.list_jobs, wanted, after=after, most=limit)
    jobs = [
        JobSummary.model_validate({**row, "progress": json.loads(row["progress"]) if row["progress"] else None})
        for row in found.jobs
    ]
    return Page(items=jobs, next=found.next)


@routes.get("/jobs/{job}")
async def show_job(caller: Reads, job: JobId) -> JobDetails:
    """One job, live or from the history, with its attempts."""
    caller.needs_fleet()
    found = await caller.app.database.pool.repeat(find_job, job)
    if found is None:
        raise NotFound(f"Job {job} does not exist, neither live nor in the history.")
    why = await caller.app.database.pool.repeat(inspect.explain_job, job)
    return JobDetails.of(found, why.sentence)


@why_routes.get("/{job}/why")
async def explain_job(caller: Reads, job: JobId) -> Why:
    """Explain the state of a job. Operators only."""
    if not caller.runs_fleet:
        raise NotAllowed("Jobs span all tenants: use an operator key (tenant `default`, all collections).")
    found = await caller.app.why(job)
    if found.state == "not found":
        raise NotFound(found.sentence)
    return caller.answer(found)


@routes.post("/jobs/{job}/cancel", status_code=202)
async def cancel_job(
    caller: Admins, job: JobId, reason: Annotated[str, Query(max_length=1000)] = "cancelled by hand"
) -> JobIds:
    """Cancel a job; a running one stops with the next heartbeat of its worker."""
    caller.needs_fleet()
    with all_tenants():
        cancelled = await caller.app.cancel(job, reason=reason)
    if not cancelled:
        raise NotFound(f"Job {job} is not live: nothing was cancelled.")
    caller.product.notifier.notify()
    return JobIds(jobs=cancelled)


@routes.get("/lanes")
async def list_lanes(caller: Reads) -> list[Lane]:
    """Ready jobs by queue, kind and fairness key; the oldest first."""
    caller.needs_fleet()
    return [
        Lane.model_validate({**vars(each), "oldest_seconds": each.oldest_age.total_seconds()})
        for each in await caller.app.database.pool.repeat(waiting_lanes)
    ]


# -- dead letters ---------------------------------------------------------------------------------------------------


@routes.get("/dead")
async def list_causes(caller: Reads, limit: Limit = 100) -> list[Cause]:
    """The causes of dead letters, the most frequent first."""
    caller.needs_fleet()
    rows = await caller.app.database.pool.repeat(dead_by_cause, limit)
    keys = {Selection(fingerprint=row["fingerprint"]).key: row["fingerprint"] for row in rows}
    under_way = await caller.app.database.pool.repeat(redrives_of, keys)
    redrives = {
        keys[row["key"]]: {"redrive": row["id"], "redrive_progress": json.loads(row["progress"] or "null")}
        for row in under_way
    }
    return [Cause.model_validate({**row, **redrives.get(row["fingerprint"], {})}) for row in rows]


@routes.get("/dead/{fingerprint}")
async def list_dead(caller: Reads, fingerprint: str, limit: Limit = 100) -> list[DeadJob]:
    """The dead jobs of one cause, the oldest first."""
    caller.needs_fleet()
    rows = await caller.app.database.pool.repeat(dead_jobs, fingerprint=fingerprint, most=limit)
    if not rows:
        raise NotFound(f"No dead job has the fingerprint {fingerprint}.")
    return [DeadJob.model_validate({**row, "error": json.loads(row["error"])}) for row in rows]


@routes.post("/dead/redrive", status_code=202)
async def redrive_jobs(caller: Admins, body: Redrive) -> StartedRedrive:
    """Start a job that retries one, then ten, then the rest, and stops when the same failure returns."""
    caller.needs_fleet()
    try:
        with all_tenants():
            started = await caller.product.redrive.start(body.selection, force=body.force)
    except NothingChanged as error:
        raise WrongState(str(error).replace("--force", "force")) from None
    caller.product.notifier.notify()
    return StartedRedrive.model_validate(started)


@routes.post("/dead/discard", status_code=202)
async def discard_jobs(caller: Admins, body: Discard) -> JobIds:
    """Discard dead jobs; the history keeps the reason."""
    caller.needs_fleet()
    with all_tenants():
        done = await discard(caller.app.database, body.selection, body.reason)
    caller.product.notifier.notify()
    return JobIds(jobs=done)


# -- pauses ---------------------------------------------------------------------------------------------------------


@routes.get("/pauses")
async def list_pauses(caller: Reads) -> list[ActivePause]:
    """The pauses, the oldest first."""
    caller.needs_fleet()
    return [ActivePause.model_validate(dict(row)) for row in await caller.app.database.pool.repeat(pauses)]


@routes.post("/pauses", status_code=201)
async def pause(caller: Admins, body: Pause) -> Pause:
    """Claim no new job of a queue, a kind or a fairness key until it is resumed; running jobs continue."""
    caller.needs_fleet()
    await caller.app.pause(**{body.what: body.name}, reason=body.reason)
    caller.product.notifier.notify()
    return body


@routes.delete("/pauses/{what}/{name:path}", status_code=204)
async def resume(caller: Admins, what: What, name: str) -> None:
    """End a pause."""
    caller.needs_fleet()
    with all_tenants():
        resumed = await caller.app.resume(**{what: name})
    if not resumed:
        raise NotFound(f"The {what} {name} is not paused.")
    caller.product.notifier.notify()
