"""The limits: as an application declares them, and as the fleet has them.

A limit is a dependency, and how many permits for it all workers have together. Declaring writes nothing. A worker writes
its declarations to `penstock.limits` and `penstock.uses` when it joins (exchange.py); what contradicts itself is refused
before that, with a sentence.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import asyncpg
from asyncpg import Record
from pydantic import Field

from penstock.database import Session, statements
from penstock.engine.kinds import Kinds, check_name, is_count
from penstock.errors import BadJob
from penstock.text import utc_relative

sql = statements(__file__)

PERMITS_MAX = 1_000_000


@dataclass(frozen=True)
class Limit:
    """A dependency that can handle only so many calls at once."""

    name: str
    permits: int
    rest: timedelta = timedelta(seconds=30)  # of the breaker when it opens first; it doubles with each failed probe
    breaker_after: int = 5  # failures in a row

    def __post_init__(self) -> None:
        check_name("limit", self.name)
        if not is_count(self.permits) or self.permits > PERMITS_MAX:
            raise BadJob(f"The limit {self.name} has {self.permits!r} permits: use an integer of at least 1.")
        if not is_count(self.breaker_after):
            raise BadJob(
                f"breaker_after of the limit {self.name} is {self.breaker_after!r}: use an integer of at least 1."
            )


class Limits(dict[str, Limit]):
    """The limits of one application, by name."""

    def declare(self, limit: Limit) -> Limit:
        """Declare a limit. Again with the same numbers is fine: two modules may need the same service."""
        before = self.setdefault(limit.name, limit)
        if before != limit:
            raise BadJob(
                f"The limit {limit.name} is declared twice, with {before.permits} and {limit.permits} permits or with "
                "different options: declare it once."
            )
        return before

    def check(self, kinds: Kinds) -> None:
        """Check that every limit in a kind's `uses` is declared and has enough permits."""
        for kind in kinds.values():
            for name, amount in kind.uses.items():
                if name not in self:
                    raise BadJob(
                        f'{kind.name} uses the limit {name}, which is not declared: add app.limit("{name}", …).'
                    )
                if amount > self[name].permits:
                    raise BadJob(
                        f"{kind.name} uses {amount} permits of {name}, which has only {self[name].permits}: "
                        "it could never run."
                    )


@dataclass(frozen=True)
class LimitState:
    """A dependency that can handle only so many calls at once, and its breaker."""

    name: str
    permits: int
    chosen: Annotated[int | None, Field(exclude=True)]  # by a person, in place of what workers declare
    failures: int
    trips: int
    opened_at: datetime | None
    rests_till: datetime | None
    reason: str | None
    probe_by: Annotated[str | None, Field(exclude=True)]
    probe_till: Annotated[datetime | None, Field(exclude=True)]
    now: Annotated[datetime, Field(exclude=True)]
    kinds: list[str]
    workers: list[dict[str, Any]]
    used: int
    granted: int
    waiting: int
    concurrency: Annotated[float, Field(description="Calls that the workers currently allow at once (adaptive).")]
    breaker: Literal["closed", "open", "probing"]

    @property
    def breaker_words(self) -> str:
        """The state of its breaker, for a person."""
        if self.opened_at is None or self.rests_till is None:
            return "closed"
        since = f"open since {utc_relative(self.opened_at, self.now)} ({self.reason})"
        if self.probe_by is not None:
            return f"{since}, probed by {self.probe_by}"
        return f"{since}, until {utc_relative(self.rests_till, self.now)}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def choose_permits(session: Session, name: str, permits: int) -> None:
    """Set the permits for the whole fleet, whatever workers declare, until `unchoose_permits`."""
    if not is_count(permits) or permits > PERMITS_MAX:
        raise BadJob(f"The limit {name} cannot have {permits!r} permits: use an integer of at least 1.")
    needed = await sql.largest_use.value(session, name=name)
    if permits < needed:
        raise BadJob(f"A job needs {needed} permits of {name} at once: with {permits} it could never run.")
    try:
        known = await sql.choose_permits.first(session, name=name, permits=permits)
    except asyncpg.UndefinedColumnError:
        raise BadJob("The schema cannot store permits set by hand yet: run `penstock db migrate` first.") from None
    if known is None:
        raise BadJob(f"Limit {name} does not exist. `penstock limits list` shows all.")


async def unchoose_permits(session: Session, name: str) -> bool:
    """Return to what workers declare, when the next one joins; False if nothing was set."""
    return await sql.unchoose_permits.first(session, name=name) is not None


async def list_limits(session: Session) -> list[LimitState]:
    """All limits that were ever declared, with what the live workers have of them."""
    return [_read(row) for row in await sql.limits(session)]


def _read(row: Record) -> LimitState:
    workers = json.loads(row["workers"])
    sums = {name: sum(worker[name] for worker in workers) for name in ("used", "granted", "waiting")}
    usable = sum(min(worker["concurrency"], worker["granted"]) for worker in workers)  # no more than was granted
    breaker = "closed" if row["opened_at"] is None else "probing" if row["probe_by"] is not None else "open"
    return LimitState(**dict(row) | sums | {"workers": workers, "concurrency": float(usable), "breaker": breaker})
