"""Schedules: the rows, keyed by `(name, share)`, and what people do to them: declare, add, look, run, pause, remove.

However often a schedule is declared, there is one of it. Code declares by its workers, again and again (scheduler.py); what
was added by a call stays until it is removed. The SQL is in schedules.sql.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from asyncpg import Record

from penstock.database import Database, Session, statements
from penstock.engine.cron import next_tick, read_rule
from penstock.engine.kinds import Call, check_name, check_share
from penstock.engine.lanes import LaneKey, Lanes
from penstock.engine.lanes import sql as lanes_sql
from penstock.errors import BadJob

sql = statements(__file__)

MISSED = ("skip", "one", "all")
OVERLAP = ("allow", "skip")
STATES = ("active", "overdue", "paused", "retired")
LATE = timedelta(minutes=1)  # beyond, `missed="skip"` leaves a tick out, and an active schedule is overdue


@dataclass(frozen=True, slots=True)
class Schedule:
    """What shall run by which rule; two that are equal are the same declaration."""

    name: str
    share: str
    rule: str
    timezone: str
    queue: str
    kind: str
    args: str
    missed: str
    overlap: str

    @classmethod
    def of(cls, name: str, rule: object, call: Call, *, timezone: str, share: str, missed: str, overlap: str) -> Self:
        """Check everything that a person can get wrong."""
        if not isinstance(name, str):
            raise BadJob(f"{name!r} cannot be the name of a schedule: use a text.")
        check_name("schedule", name)
        check_share(share)
        if not isinstance(call, Call):
            raise BadJob(
                f"{call!r} is not a job: call the decorated function, as in schedule(…, …, greet(name='Ada'))."
            )
        for option, value, words in (("missed", missed, MISSED), ("overlap", overlap, OVERLAP)):
            if value not in words:
                raise BadJob(f"{option} of the schedule {name} is {value!r}: use {' or '.join(map(repr, words))}.")
        text, zone = read_rule(rule, timezone, datetime.now(UTC))
        return cls(name, share, text, zone, call.kind.queue, call.kind.name, call.args, missed, overlap)

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.share

    @property
    def lane(self) -> LaneKey:
        return self.queue, self.kind, self.share


class Schedules(dict[tuple[str, str], Schedule]):
    """The schedules that an application declares in code, by name and share."""

    def declare(self, schedule: Schedule) -> None:
        if self.setdefault(schedule.key, schedule) != schedule:
            raise BadJob(
                f"There are two different schedules {schedule.name} for the share {schedule.share}: give one of them "
                "another name."
            )


async def declare(session: Session, schedules: Sequence[Schedule], origin: str, fresh_for: timedelta) -> int:
    """Bring the rows to what is declared, in one statement; how many were not so already."""
    now = await sql.database_now.value(session)
    written = await sql.declare_schedules(
        session,
        names=[schedule.name for schedule in schedules],
        shares=[schedule.share for schedule in schedules],
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
    missing = sorted(wanted)
    if not missing:
        return
    queues, kinds, shares = (list(column) for column in zip(*missing, strict=True))
    found = await lanes_sql.find_lanes(session, queues=queues, kinds=kinds, shares=shares)
    if len(found) < len(missing):  # asked first: an insert that conflicts uses up a number all the same
        await lanes_sql.add_lanes.run(session, queues=queues, kinds=kinds, shares=shares)


async def add_schedule(database: Database, lanes: Lanes, schedule: Schedule) -> None:
    """Declare by hand: nobody has to repeat it, and it stays until it is removed."""
    await lanes.ids(database, [schedule.lane])
    async with database.pool.transaction() as tx:
        await declare(tx, [schedule], "api", timedelta(0))
        [row] = await find_schedules(tx, schedule.name, schedule.share)
    if row["origin"] != "api":
        raise BadJob(
            f"The schedule {schedule.name} of the share {schedule.share} is declared in code: change it there, or use "
            "another name."
        )


async def find_schedules(
    session: Session, name: str | None = None, share: str | None = None, most: int = 10_000
) -> list[Record]:
    """The rows with their state: active, overdue, paused or retired."""
    return await sql.list_schedules(session, name=name, share=share, overdue_after=LATE, most=most)


async def count_schedules(session: Session) -> dict[str, int]:
    """How many are in which state; zero is said, too."""
    found = {row["state"]: row["count"] for row in await sql.count_schedules(session, overdue_after=LATE)}
    return {state: found.get(state, 0) for state in STATES}


async def overdue_schedules(session: Session, most: int = 100) -> list[Record]:
    """Those that should have ticked a minute ago and did not, the latest first."""
    return await sql.overdue_schedules(session, overdue_after=LATE, most=most)


async def run_schedule(session: Session, name: str, share: str) -> int | None:
    """Make a job of it now, outside of its rule; the number, or None if there is no such schedule."""
    number: int | None = await sql.run_schedule.value(session, name=name, share=share)
    return number


async def pause_schedule(session: Session, name: str, share: str) -> bool:
    """No more ticks until it is resumed; False if it is paused already, or not there."""
    return await sql.pause_schedule.value(session, name=name, share=share) is not None


async def resume_schedule(session: Session, name: str, share: str) -> bool:
    """Go on with the next tick; False if it was not paused."""
    for row in await find_schedules(session, name, share):
        next_at = next_tick(row["rule"], row["timezone"], row["now"])
        return await sql.resume_schedule.value(session, name=name, share=share, next_at=next_at) is not None
    return False


async def remove_schedule(session: Session, name: str, share: str) -> bool:
    """Delete one that was added by hand, or is retired; False if there is none."""
    if await sql.remove_schedule.value(session, name=name, share=share) is not None:
        return True
    if await find_schedules(session, name, share):
        raise BadJob(
            f"The schedule {name} of the share {share} is declared in code: remove it there. It is retired when no worker "
            "has declared it for a while (engine.retire_after)."
        )
    return False
