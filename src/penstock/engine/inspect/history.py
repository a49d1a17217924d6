"""Queries about jobs that have ended, and about the steps of one job, for people. All are bounded, as those of queries.py."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from penstock.database import Session, statements

sql = statements(__file__)

Outcome = Literal["done", "cancelled", "discarded"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
WINDOW = 20_000  # jobs that are read for one page
LATELY = 5_000  # jobs that are read for a chart
MOST_STEPS = 500
HOUR = timedelta(hours=1)


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
    rows = await sql.list_finished(session, outcome=outcome, kind=kind, before=before, window=WINDOW, most=most + 1)
    jobs = [
        FinishedJob(**{**row, "args": json.loads(row["args"]), "result": json.loads(row["result"] or "null")})
        for row in rows[:most]
    ]
    if len(rows) > most:
        return FinishedJobs(jobs, jobs[-1].id)
    return FinishedJobs(jobs, await sql.walked_back_to.value(session, before=before, window=WINDOW))


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """The jobs of a queue that ended in each minute of the last hour."""

    queue: str
    minutes: Mapping[datetime, int]


async def ended_by_queue(session: Session) -> list[QueueHistory]:
    """Of the last jobs, those that ended within the hour, by queue."""
    found: dict[str, dict[datetime, int]] = {}
    for row in await sql.ended_by_queue(session, most=LATELY, span=HOUR):
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
    return [StageLoad(**row) for row in await sql.running_by_stage(session, most=LATELY)]


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
    return [KindDurations(**row) for row in await sql.durations_by_kind(session, most=LATELY)]


@dataclass(frozen=True, slots=True)
class KeptStep:
    """A step whose result is kept for the next attempt."""

    step: str
    made_at: datetime
    seconds: float


async def list_steps(session: Session, job: int) -> list[KeptStep]:
    """The kept steps of a job, oldest first. They go when it ends."""
    return [KeptStep(**row) for row in await sql.list_steps(session, job=job, most=MOST_STEPS)]
