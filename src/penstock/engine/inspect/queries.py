"""Queries about jobs, for people, `doctor` and the metrics: live and finished ones, counts, waiting lanes, durations, steps.

Every query is bounded: none costs more because there are a million other jobs. Durations are estimated from the last `LATELY`
jobs of the history; a kind of which none is among them has no estimate.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from asyncpg import Record

from penstock.database import Session, statements
from penstock.text import span

sql = statements(__file__)

Outcome = Literal["done", "cancelled", "discarded"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
STATES = ("ready", "later", "running", "waiting", "dead")
FEW = 2_000  # jobs of one state that are read from its index
WINDOW = 50_000  # jobs that are read for one page
MOST_COUNTED = 100_000  # jobs, or documents, in one state
MOST_LANES = 200
MOST_ROWS = 10_000  # in all, but some of each lane and priority
LEAST_ROWS = 100
LOOKED_AT = 20  # of each lane and priority, to find one that was never tried
LATELY = 1_000  # jobs of the history
FEWEST = 3  # of a kind, to estimate what is usual
MOST_RIVALS = 50
MOST_AHEAD = 50  # that are counted in each of them
FINISHED_WINDOW = 20_000  # jobs of the history that are read for one page
CHARTED = 5_000  # jobs that are read for a chart
MOST_STEPS = 500
HOUR = timedelta(hours=1)

# -- lists --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobFilter:
    """A filter of live jobs; None is any."""

    state: str | None = None
    kind: str | None = None
    queue: str | None = None
    fairness_key: str | None = None

    @property
    def lanes(self) -> dict[str, Any]:
        named = {"kind": self.kind, "queue": self.queue, "fairness_key": self.fairness_key}
        return {**named, "any_lane": not any(named.values())}


@dataclass(frozen=True)
class JobPage:
    """A page; `next` is the id after which the next one begins, None at the end."""

    jobs: Sequence[Record]
    next: int | None


async def list_jobs(session: Session, wanted: JobFilter, *, after: int = 0, most: int = 50) -> JobPage:
    """The jobs after an id, without dead ones unless they are asked for; by keyset, the caller passes the `next` of a page."""
    values: dict[str, Any] = {"after": after, "most": most + 1, **wanted.lanes}
    if wanted.state is not None:
        rows = await getattr(sql, f"few_{wanted.state}")(session, bound=FEW + 1, **values)
        if rows[0]["seen"] <= FEW:
            return _cut([row for row in rows if row["id"] is not None], most)
    found = await sql.walk_jobs(session, state=wanted.state, window=WINDOW, **values)
    if len(found) > most:
        return _cut(found, most)
    return JobPage(found, await sql.walked_to.value(session, after=after, window=WINDOW))


def _cut(found: Sequence[Record], most: int) -> JobPage:
    return JobPage(found[:most], found[most - 1]["id"] if len(found) > most else None)


# -- lanes and counts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WaitingLane:
    queue: str
    kind: str
    fairness_key: str
    paused: bool
    open: bool  # for at least one live worker
    shut: bool  # for one that serves it, by a limit
    ready: int
    oldest_id: int
    oldest_age: timedelta


async def waiting_lanes(session: Session) -> list[WaitingLane]:
    """The lanes with ready jobs, oldest first; bounded in lanes and in what is counted in each."""
    rows = await sql.waiting_lanes(session, most_lanes=MOST_LANES, most_rows=MOST_ROWS, least_rows=LEAST_ROWS)
    return [WaitingLane(**row) for row in rows]


@dataclass(frozen=True)
class LaneWait:
    """The time that a served kind waits for a worker: the age of its oldest ready job that was never tried."""

    queue: str
    kind: str
    seconds: float


async def served_waits(session: Session) -> list[LaneWait]:
    """By kind, longest first. What was tried before or is paused is not counted: it may be old for good reasons."""
    rows = await sql.served_waits(session, most_lanes=MOST_LANES, looked_at=LOOKED_AT)
    return [LaneWait(**row) for row in rows]


async def count_states(session: Session, most: int = MOST_COUNTED) -> dict[str, int]:
    """Live jobs by state, each counted to a bound; `quarantined` are those ready ones that are not counted as `ready`."""
    return {row["state"]: row["count"] for row in await sql.count_states(session, most=most)}


async def count_jobs(session: Session, fairness_key: str | None = None) -> dict[str, dict[str, int]]:
    """Live jobs by state, each counted to a bound: `count`, `leased` (by a live worker), `attempted`."""
    found = {
        row["state"]: dict(row) for row in await sql.count_jobs(session, fairness_key=fairness_key, most=MOST_COUNTED)
    }
    keys = ("count", "leased", "attempted")
    return {state: {key: found.get(state, {}).get(key, 0) for key in keys} for state in STATES}


async def count_workers(session: Session) -> int:
    workers: int = await sql.count_workers.value(session)
    return workers


# -- durations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """The time that half of such jobs needed at most, and nine of ten."""

    usual: timedelta
    long: timedelta
    jobs: int  # that were measured
    like: str = "jobs of its kind"

    def predict(self, elapsed: timedelta) -> str:
        """The estimated end of a job that has run so long."""
        if elapsed <= self.usual:
            return f"it should end in about {span(self.usual - elapsed)}, as {self.like} take {span(self.usual)}"
        if elapsed <= self.long:
            return f"it should end within {span(self.long - elapsed)}: nine of ten {self.like} take at most {span(self.long)}"
        return f"this is longer than nine of ten {self.like} take ({span(self.long)})"

    def as_json(self) -> dict[str, float | int | str]:
        return {
            "usual_seconds": self.usual.total_seconds(),
            "long_seconds": self.long.total_seconds(),
            "jobs": self.jobs,
            "like": self.like,
        }


def estimate_of(row: Record | None, like: str = "jobs of its kind") -> DurationEstimate | None:
    """None where too few were measured."""
    if row is None or row["jobs"] < FEWEST:
        return None
    return DurationEstimate(timedelta(seconds=row["usual"]), timedelta(seconds=row["long"]), row["jobs"], like)


async def read_estimate(session: Session, queue: str, kind: str) -> tuple[DurationEstimate | None, timedelta | None]:
    """The estimate of a kind, and what a job of its queue takes on average, whatever its kind."""
    row = await sql.pace.first(session, most=LATELY, queue=queue, kind=kind)
    mean = None if row is None or row["of_queue"] is None else timedelta(seconds=row["of_queue"])
    return estimate_of(row), mean


async def read_rivals(session: Session, *, queue: str, lane: int, priority: int) -> list[int]:
    """The jobs that wait in each of the other lanes that take turns with this one; both are counted to a bound."""
    rows = await sql.rivals(
        session, queue=queue, lane=lane, priority=priority, most_lanes=MOST_RIVALS, most_rows=MOST_AHEAD
    )
    return [row["ready"] for row in rows]


def jobs_before(ahead: int, rivals: Sequence[int]) -> int:
    """The jobs that start before it: for each job ahead in its own lane, each other lane starts one, if it has any."""
    turns = ahead + 1
    return ahead + sum(turns if ready >= MOST_AHEAD else min(ready, turns) for ready in rivals)


def expected_start(before: int, *, mean: timedelta | None, slots: int, running: int) -> timedelta | None:
    """The estimated time until so many jobs have begun; None where nothing was measured."""
    if running + before < slots:
        return timedelta(0)
    return None if mean is None or not slots else mean * (before + 1) / slots


# -- finished jobs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job of the history."""

    id: int
    queue: str
    kind: str
    fairness_key: str
    outcome: str
    attempt: int
    enqueued_at: datetime
    finished_at: datetime
    seconds: float | None  # from its first claim on; None if it was never claimed
    args: Any
    result: Any
    error: str | None


@dataclass(frozen=True, slots=True)
class FinishedJobs:
    """A page of the history, newest first; `next` is the id before which to go on, None at the end."""

    jobs: list[FinishedJob]
    next: int | None


async def list_finished(
    session: Session, *, outcome: str | None = None, kind: str | None = None, before: int = 2**63 - 1, most: int = 50
) -> FinishedJobs:
    """The jobs that ended, by id: a page may be short and still have a `next`."""
    rows = await sql.list_finished(
        session, outcome=outcome, kind=kind, before=before, window=FINISHED_WINDOW, most=most + 1
    )
    jobs = [
        FinishedJob(**{**row, "args": json.loads(row["args"]), "result": json.loads(row["result"] or "null")})
        for row in rows[:most]
    ]
    if len(rows) > most:
        return FinishedJobs(jobs, jobs[-1].id)
    return FinishedJobs(jobs, await sql.walked_back_to.value(session, before=before, window=FINISHED_WINDOW))


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """The jobs of a queue that ended in each minute of the last hour."""

    queue: str
    minutes: Mapping[datetime, int]


async def ended_by_queue(session: Session) -> list[QueueHistory]:
    """Of the last jobs, those that ended within the hour, by queue."""
    found: dict[str, dict[datetime, int]] = {}
    for row in await sql.ended_by_queue(session, most=CHARTED, span=HOUR):
        found.setdefault(row["queue"], {})[row["minute"]] = row["jobs"]
    return [QueueHistory(queue, minutes) for queue, minutes in sorted(found.items())]


@dataclass(frozen=True, slots=True)
class StageLoad:
    """The running jobs of a kind that are in one step."""

    queue: str
    kind: str
    step: str  # empty: between two steps
    running: int


async def running_by_stage(session: Session) -> list[StageLoad]:
    return [StageLoad(**row) for row in await sql.running_by_stage(session, most=CHARTED)]


@dataclass(frozen=True, slots=True)
class KindDurations:
    """The time that jobs of a kind take: half of them at most `usual`, nine of ten at most `long`."""

    queue: str
    kind: str
    jobs: int
    usual: float
    long: float


async def durations_by_kind(session: Session) -> list[KindDurations]:
    """Of the last jobs that were done at their first attempt, the longest first."""
    return [KindDurations(**row) for row in await sql.durations_by_kind(session, most=CHARTED)]


@dataclass(frozen=True, slots=True)
class KeptStep:
    """A step whose result is kept for the next attempt."""

    step: str
    made_at: datetime
    seconds: float


async def list_steps(session: Session, job: int) -> list[KeptStep]:
    """The kept steps of a job, oldest first. They go when it ends."""
    return [KeptStep(**row) for row in await sql.list_steps(session, job=job, most=MOST_STEPS)]
