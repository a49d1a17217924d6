"""Schedules: their rules, and their rows, keyed by `(name, fairness_key)`.

A rule is a cron expression or an interval, with a time zone; `next_tick` is a pure function of it. However often a schedule is
declared, there is one of it. Code declares by its workers, again and again (scheduler.py); what was added by a call stays until
it is removed.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from asyncpg import Record
from cronsim import CronSim, CronSimError
from pydantic import Field

from penstock.database import Database, Session, statements
from penstock.engine.claim import LaneKey, Lanes, find_or_add_lanes
from penstock.engine.kinds import Call, check_fairness_key, check_name
from penstock.errors import BadJob
from penstock.settings import format_duration, parse_duration

sql = statements(__file__)

EVERY = "every "
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=366)
RULE_MAX = 200  # characters
OF_THIS_MACHINE = ("localtime", "posixrules")  # not the same everywhere
HOW = "write '0 2 * * *' for every day at 2, or 'every 5m'"
MISSED = ("skip", "one", "all")
OVERLAP = ("allow", "skip")
STATES = ("active", "overdue", "paused", "retired")
LATE = timedelta(minutes=1)  # beyond, `missed="skip"` leaves a tick out, and an active schedule is overdue

# -- rules --------------------------------------------------------------------------------------------------------


def read_rule(given: object, timezone: object, now: datetime) -> tuple[str, str]:
    """The rule and the zone as they are kept; BadJob if they can never tick after `now`."""
    zone = _read_zone(timezone)
    rule = _read_interval(given) if _is_interval(given) else _read_cron(given)
    if next_tick(rule, zone, now) is None:
        raise BadJob(f"The rule {rule!r} never comes true again: choose a date that exists.")
    return rule, zone


@lru_cache(maxsize=16_384)  # schedules share rules: 15 to 50 µs for the first of them, 0.1 µs for the others
def next_tick(rule: str, timezone: str, after: datetime) -> datetime | None:
    """The first tick after this moment, in UTC; None if there is none in fifty years. BadJob if the rule cannot be read."""
    if rule.startswith(EVERY):
        interval = _interval(rule)
        return after - (after - EPOCH) % interval + interval
    try:
        for tick in CronSim(rule, after.astimezone(_zone(timezone))):
            # Begun in the second of two equal hours, it gives ticks of the first again.
            if (moment := tick.astimezone(UTC)) > after:
                return moment
    except CronSimError as error:
        raise BadJob(f"{rule!r} is not a cron rule ({error}): {HOW}.") from None
    except OverflowError:  # the end of the calendar
        pass
    return None


def count_ticks(
    rule: str, timezone: str, first: datetime, now: datetime, most: int
) -> tuple[int, datetime, datetime | None]:
    """From the tick `first` up to `now`: how many, the last of them, and the one that follows; `most` are walked over."""
    if rule.startswith(EVERY):
        interval = _interval(rule)
        number = (now - first) // interval
        latest = first + number * interval
        return number + 1, latest, next_tick(rule, timezone, latest)
    number, latest = 1, first
    following = next_tick(rule, timezone, first)
    while following is not None and following <= now and number < most:
        number, latest = number + 1, following
        following = next_tick(rule, timezone, latest)
    return number, latest, following


def _is_interval(given: object) -> bool:
    return isinstance(given, timedelta) or (isinstance(given, str) and given.strip().lower().startswith(EVERY))


def _read_interval(given: object) -> str:
    """A timedelta goes through its text, too: one place decides what can be."""
    if isinstance(given, timedelta):
        given = EVERY + (format_duration(given) if given > timedelta(0) else "0s")
    return EVERY + format_duration(_interval(str(given).strip()))


def _read_cron(given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= RULE_MAX:
        raise BadJob(f"{str(given)[:50]!r} is not a rule: {HOW}.")
    fields = given.upper().split()
    rule = " ".join(fields)
    if len(fields) != 5:
        raise BadJob(f"{given!r} is not a cron rule, which has five fields: {HOW}.")
    if _is_cron(rule):
        return rule
    if _is_cron(" ".join([*fields[:3], "*", fields[4]])) and _is_cron(" ".join([*fields[:2], "1", *fields[3:]])):
        raise BadJob(f"The rule {rule!r} never comes true: no such month has so many days. Choose a date that exists.")
    raise BadJob(f"{given!r} is not a cron rule ({_fault(rule)}): {HOW}.")


def _is_cron(rule: str) -> bool:
    return _fault(rule) is None


def _fault(rule: str) -> str | None:
    """The fault of a rule; cronsim also refuses 30 February, as a bad day of the month."""
    try:
        CronSim(rule, EPOCH)
    except CronSimError as error:
        return str(error)
    return None


def _read_zone(given: object) -> str:
    try:
        if isinstance(given, str) and given not in OF_THIS_MACHINE and not given.startswith(("posix/", "right/")):
            _zone(given)
            return given
    except BadJob:
        pass
    near = get_close_matches(str(given), available_timezones(), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "use a name such as Europe/Berlin or UTC."
    raise BadJob(f"{str(given)[:50]!r} is not a known time zone: {hint}")


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder is an OSError, a path a ValueError
        raise BadJob(f"This machine does not know the time zone {name!r}: install the package tzdata.") from None


@lru_cache(maxsize=1024)
def _interval(rule: str) -> timedelta:
    try:
        length = parse_duration(rule[len(EVERY) :])
    except ValueError as error:
        raise BadJob(f"{rule!r} is not an interval: {error}") from None
    if not SHORTEST <= length <= LONGEST or length % SHORTEST:
        raise BadJob(f"Invalid interval {format_duration(length)}: use whole seconds, from 1s to {LONGEST.days}d.")
    return length


# -- rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Schedule:
    """A call and its rule; two that are equal are the same declaration."""

    name: str
    fairness_key: str
    rule: str
    timezone: str
    queue: str
    kind: str
    args: str
    missed: str
    overlap: str

    @classmethod
    def of(
        cls, name: str, rule: object, call: Call, *, timezone: str, fairness_key: str, missed: str, overlap: str
    ) -> Self:
        """Make a schedule; BadJob if an argument cannot be used."""
        if not isinstance(name, str):
            raise BadJob(f"{name!r} cannot be the name of a schedule: use a text.")
        check_name("schedule", name)
        check_fairness_key(fairness_key)
        if not isinstance(call, Call):
            raise BadJob(
                f"{call!r} is not a job: call the decorated function, as in schedule(…, …, greet(name='Ada'))."
            )
        for option, value, words in (("missed", missed, MISSED), ("overlap", overlap, OVERLAP)):
            if value not in words:
                raise BadJob(f"{option} of the schedule {name} is {value!r}: use {' or '.join(map(repr, words))}.")
        text, zone = read_rule(rule, timezone, datetime.now(UTC))
        return cls(name, fairness_key, text, zone, call.kind.queue, call.kind.name, call.args, missed, overlap)

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.fairness_key

    @property
    def lane(self) -> LaneKey:
        return self.queue, self.kind, self.fairness_key


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule as it is stored: its rule, its call, its state."""

    name: str
    fairness_key: str
    rule: str
    timezone: str
    queue: str
    kind: str
    missed: str
    overlap: str
    origin: Annotated[str, Field(description="code or api.")]
    state: Literal["active", "overdue", "paused", "retired"]
    declared_at: datetime
    next_at: datetime | None
    last_at: datetime | None
    last_job: int | None
    fired: int
    skipped: int
    args: Annotated[Any, Field(exclude=True)]
    paused_at: Annotated[datetime | None, Field(exclude=True)]
    retired_at: Annotated[datetime | None, Field(exclude=True)]
    now: Annotated[datetime, Field(exclude=True)]  # by the clock of the database, which the other times are from


class Schedules(dict[tuple[str, str], Schedule]):
    """The schedules that an application declares in code, by name and fairness key."""

    def declare(self, schedule: Schedule) -> None:
        if self.setdefault(schedule.key, schedule) != schedule:
            raise BadJob(
                f"Schedule {schedule.name} of the fairness key {schedule.fairness_key} is declared twice, differently: "
                "give one of them another name."
            )


async def declare(session: Session, schedules: Sequence[Schedule], origin: str, fresh_for: timedelta) -> int:
    """Bring the rows to what is declared, in one statement; how many were not so already."""
    now = await sql.database_now.value(session)
    written = await sql.declare_schedules(
        session,
        names=[schedule.name for schedule in schedules],
        fairness_keys=[schedule.fairness_key for schedule in schedules],
        rules=[schedule.rule for schedule in schedules],
        timezones=[schedule.timezone for schedule in schedules],
        queues=[schedule.queue for schedule in schedules],
        kinds=[schedule.kind for schedule in schedules],
        args=[schedule.args for schedule in schedules],
        misseds=[schedule.missed for schedule in schedules],
        overlaps=[schedule.overlap for schedule in schedules],
        nexts=[next_tick(schedule.rule, schedule.timezone, now) for schedule in schedules],
        origin=origin,
        fresh_for=fresh_for,
    )
    return len(written)


async def add_lanes(session: Session, wanted: Iterable[LaneKey]) -> None:
    """Make sure that these lanes exist; each at once, outside of any transaction."""
    if missing := sorted(wanted):
        await find_or_add_lanes(session, missing)


async def schedule_names(session: Session) -> list[str]:
    return [row["name"] for row in await sql.schedule_names(session)]


async def add_schedule(database: Database, lanes: Lanes, schedule: Schedule) -> None:
    """Add a schedule by a call: it stays until it is removed, whatever workers declare."""
    await lanes.ids(database, [schedule.lane])
    async with database.pool.transaction() as tx:
        await declare(tx, [schedule], "api", timedelta(0))
        [found] = await find_schedules(tx, schedule.name, schedule.fairness_key)
    if found.origin != "api":
        raise BadJob(
            f"The schedule {schedule.name} of the fairness key {schedule.fairness_key} is declared in code: change it "
            "there, or use another name."
        )


async def find_schedules(
    session: Session, name: str | None = None, fairness_key: str | None = None, most: int = 10_000
) -> list[ScheduleState]:
    """The schedules with their state: active, overdue, paused or retired."""
    rows = await sql.list_schedules(session, name=name, fairness_key=fairness_key, overdue_after=LATE, most=most)
    return [ScheduleState(**dict(row) | {"args": json.loads(row["args"])}) for row in rows]


async def count_schedules(session: Session) -> dict[str, int]:
    """The number of schedules in each state, also zero."""
    found = {row["state"]: row["count"] for row in await sql.count_schedules(session, overdue_after=LATE)}
    return {state: found.get(state, 0) for state in STATES}


async def overdue_schedules(session: Session, most: int = 100) -> list[Record]:
    """Those that should have ticked a minute ago and did not, the latest first."""
    return await sql.overdue_schedules(session, overdue_after=LATE, most=most)


async def run_schedule(session: Session, name: str, fairness_key: str) -> int | None:
    """Enqueue its job now, outside of its rule; the id, or None if it does not exist."""
    number: int | None = await sql.run_schedule.value(session, name=name, fairness_key=fairness_key)
    return number


async def pause_schedule(session: Session, name: str, fairness_key: str) -> bool:
    """Stop its ticks until it is resumed; False if it is paused already, or missing."""
    return await sql.pause_schedule.value(session, name=name, fairness_key=fairness_key) is not None


async def resume_schedule(session: Session, name: str, fairness_key: str) -> bool:
    """Continue with the next tick; False if it was not paused."""
    for found in await find_schedules(session, name, fairness_key):
        next_at = next_tick(found.rule, found.timezone, found.now)
        return (
            await sql.resume_schedule.value(session, name=name, fairness_key=fairness_key, next_at=next_at) is not None
        )
    return False


async def remove_schedule(session: Session, name: str, fairness_key: str) -> bool:
    """Delete one that was added by hand, or is retired; False if there is none."""
    if await sql.remove_schedule.value(session, name=name, fairness_key=fairness_key) is not None:
        return True
    if await find_schedules(session, name, fairness_key):
        raise BadJob(
            f"The schedule {name} of the fairness key {fairness_key} is declared in code: remove it there. It is retired "
            "when no worker has declared it for a while (engine.retire_after)."
        )
    return False
