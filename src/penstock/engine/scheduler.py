"""The scheduler: makes one job for each tick of a schedule, whatever dies and however many workers tick.

Every worker declares the schedules of its application, and ticks for all: it locks what is due, makes the jobs and moves
`next_at`, in one transaction. A tick is unique twice over: by the row's lock, and by a key of its job, which holds the
tick's time in UTC. What is not declared any more is retired. The rule and the rows are in schedules.py.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import asyncpg
from asyncpg import Record

from penstock import telemetry
from penstock.database import Session, statements
from penstock.engine.failpoint import reach
from penstock.engine.schedules import LATE, Schedules, add_lanes, count_ticks, declare, next_tick
from penstock.settings import Settings
from penstock.telemetry import log

sql = statements(__file__)

BATCH = 500  # schedules in a transaction
DECLARED_AT_ONCE = 1000
CATCH_UP = 10  # ticks of one schedule in a transaction
WALK = 1000  # ticks that are only counted
KEY_KEPT, KEYS_KEPT = timedelta(days=1), 60  # a day, but not more ticks: at one a minute, 10,000 would keep 14 million
RETIRED_KEPT = timedelta(days=30)
TEND_EVERY = timedelta(seconds=60)
AFTER_TROUBLE = 5.0  # seconds
INSTANT = timedelta(microseconds=1)

ticks = telemetry.counter(
    "penstock_schedule_ticks_total", "Ticks of schedules that this process handled: fired or skipped", ("outcome",)
)


# -- policy -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TickPlan:
    """The ticks of one schedule that are due: those that fire, and how many are skipped."""

    fire: list[datetime] = field(default_factory=list)
    skipped: int = 0
    next_at: datetime | None = None
    keep: timedelta = KEY_KEPT


def plan(rule: str, timezone: str, missed: str, next_at: datetime, now: datetime) -> TickPlan:
    """Which ticks up to `now` get a job. Bounded: what is left over is due again at once."""
    first = next_tick(rule, timezone, next_at - INSTANT)  # a next_at that is wrong must not become a tick
    if first is None or first > now:
        return TickPlan(next_at=first)
    if missed == "all":
        due, following = [first], next_tick(rule, timezone, first)
        while following is not None and following <= now and len(due) < CATCH_UP:
            due.append(following)
            following = next_tick(rule, timezone, following)
        return TickPlan(due, 0, following, _kept(due[-1], following))
    number, latest, following = count_ticks(rule, timezone, first, now, WALK)
    reached = following is None or following > now
    if not reached or (missed == "skip" and now - latest >= LATE):
        return TickPlan([], number, following)
    return TickPlan([latest], number - 1, following, _kept(latest, following))


def _kept(tick: datetime, following: datetime | None) -> timedelta:
    return KEY_KEPT if following is None else min(KEY_KEPT, KEYS_KEPT * (following - tick))


def without_overlap(plan: TickPlan, alive: bool) -> TickPlan:
    """At most one job at a time: none while the last is alive, and never two in one round."""
    fire = [] if alive else plan.fire[:1]
    return TickPlan(fire, plan.skipped + len(plan.fire) - len(fire), plan.next_at, plan.keep)


def key_of(name: str, fairness_key: str, tick: datetime) -> str:
    """The tick comes first, so that keys of one moment lie together: by schedule, each would dirty a page of its own."""
    return f"schedule/{tick.replace(tzinfo=None).isoformat()}Z/{fairness_key}/{name}"


# -- ticking ------------------------------------------------------------------------------------------------------


class Scheduler:
    """One worker's part: declares what its application declares, and ticks for all.

    What a process declares, it declares once. Afterwards it only confirms that it is still there: in a rolling deploy, a
    worker of the old code that joins again must not bring the old rule back.
    """

    def __init__(self, settings: Settings, schedules: Schedules) -> None:
        self._retire_after = settings.engine.retire_after
        self._fresh_for = self._retire_after / 4
        self._schedules = schedules
        self._declared: set[tuple[str, str]] = set()
        self._tend_at = time.monotonic() + min(self._fresh_for, TEND_EVERY).total_seconds()
        self._rest_until = 0.0

    async def do(self, session: Session) -> float | None:
        """Declare what is new, fire what is due; the seconds until the next tick, 0 if there is more to do.

        A statement that the server refuses (the schema of the release before has no schedules) must not end the heartbeat.
        """
        if time.monotonic() < self._rest_until:
            return None
        try:
            return await self._do(session)
        except asyncpg.PostgresError as error:
            self._rest_until = time.monotonic() + AFTER_TROUBLE
            log.error("schedules do not tick", error=str(error))
            return None

    async def _do(self, session: Session) -> float | None:
        if len(self._declared) < len(self._schedules):
            await self._declare(session)
            if len(self._declared) < len(self._schedules):
                return 0.0
        if time.monotonic() > self._tend_at:
            self._tend_at = time.monotonic() + min(self._fresh_for, TEND_EVERY).total_seconds()
            await self._tend(session)
        until = await _until_next_tick(session)
        if until is None or until > 0:
            return until
        return 0.0 if await tick(session) == BATCH else await _until_next_tick(session)

    async def _declare(self, session: Session) -> None:
        new = [schedule for key, schedule in list(self._schedules.items()) if key not in self._declared]
        part = new[:DECLARED_AT_ONCE]
        await add_lanes(session, {schedule.lane for schedule in part})
        await declare(session, part, "code", self._fresh_for)
        self._declared |= {schedule.key for schedule in part}

    async def _tend(self, session: Session) -> None:
        """Confirm that ours are still declared; retire what no worker declares."""
        if self._declared:
            names, fairness_keys = (list(column) for column in zip(*sorted(self._declared), strict=True))
            await sql.refresh_schedules(session, names=names, fairness_keys=fairness_keys, fresh_for=self._fresh_for)
        for row in await sql.retire_schedules(session, retire_after=self._retire_after):
            log.warning(
                "a schedule is retired: no worker declares it", schedule=row["name"], fairness_key=row["fairness_key"]
            )
        await sql.delete_retired.run(session, kept=RETIRED_KEPT)


async def _until_next_tick(session: Session) -> float | None:
    seconds: float | None = await sql.until_next_tick.value(session)
    return seconds


async def tick(session: Session, batch: int = BATCH) -> int:
    """Fire what is due, in one transaction; how many schedules were due, at most a batch."""
    async with session.transaction():
        due = await sql.due_schedules(session, batch=batch)
        placed = [row for row in due if row["lane"] is not None]
        if placed:
            plans = [_plan_row(row) for row in placed]
            keys = [_keys(row, planned) for row, planned in zip(placed, plans, strict=True)]
            jobs = await _fire(session, placed, plans, keys)
            reach("cron-tick", session)
            await _advance(session, placed, plans, keys, jobs)
    homeless = {(row["queue"], row["kind"], row["fairness_key"]) for row in due if row["lane"] is None}
    await add_lanes(session, homeless)  # not inside: all that need the lane would wait for our commit
    return len(due)


def _plan_row(row: Record) -> TickPlan:
    try:
        planned = plan(row["rule"], row["timezone"], row["missed"], row["next_at"], row["now"])
    except (ValueError, ArithmeticError, AssertionError) as error:  # a zone that this machine does not know, a bad row
        log.error("a schedule cannot tick", schedule=row["name"], fairness_key=row["fairness_key"], error=str(error))
        return TickPlan([], 1, row["now"] + LATE)
    return without_overlap(planned, row["alive"]) if row["overlap"] == "skip" else planned


def _keys(row: Record, planned: TickPlan) -> list[str]:
    return [key_of(row["name"], row["fairness_key"], at) for at in planned.fire]


async def _fire(
    session: Session, due: Sequence[Record], plans: Sequence[TickPlan], keys: Sequence[Sequence[str]]
) -> dict[str, int]:
    """Insert the jobs; their ids by their keys. A tick whose key is taken has had its job."""
    firing = [(key, row, planned.keep) for row, planned, some in zip(due, plans, keys, strict=True) for key in some]
    if not firing:
        return {}
    made = await sql.fire_ticks(
        session,
        names=[row["name"] for _, row, _ in firing],
        fairness_keys=[row["fairness_key"] for _, row, _ in firing],
        lanes=[row["lane"] for _, row, _ in firing],
        keys=[key for key, _, _ in firing],
        keeps=[keep for _, _, keep in firing],
        queues=sorted({row["queue"] for _, row, _ in firing}),
    )
    return {row["key"]: row["job_id"] for row in made}


async def _advance(
    session: Session,
    due: Sequence[Record],
    plans: Sequence[TickPlan],
    keys: Sequence[Sequence[str]],
    jobs: Mapping[str, int],
) -> None:
    fireds, skippeds, lasts, last_jobs = [], [], [], []
    for planned, some in zip(plans, keys, strict=True):
        made = [(at, jobs[key]) for at, key in zip(planned.fire, some, strict=True) if key in jobs]
        last, job = made[-1] if made else (None, None)
        fireds.append(len(made))
        skippeds.append(planned.skipped + len(planned.fire) - len(made))
        lasts.append(last)
        last_jobs.append(job)
    await sql.advance_schedules.run(
        session,
        names=[row["name"] for row in due],
        fairness_keys=[row["fairness_key"] for row in due],
        nexts=[planned.next_at for planned in plans],
        fireds=fireds,
        skippeds=skippeds,
        lasts=lasts,
        jobs=last_jobs,
    )
    ticks.labels("fired").inc(sum(fireds))
    ticks.labels("skipped").inc(sum(skippeds))
