"""The life of a document: its events and the attempts of its jobs, in one order, with the time between them.

Events are what happened to the document, for good; attempts are kept as long as the history of jobs. The SQL is in life.sql.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from asyncpg import Record

from penstock.database import statements
from penstock.documents.catalog import Event, history
from penstock.engine import Penstock

sql = statements(__file__)

MOST = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, and how long after the last thing."""

    at: datetime
    event: str  # of the document; or `attempt`: a try of its job began
    details: Mapping[str, Any]
    after: timedelta | None  # none for the first

    def as_json(self) -> dict[str, Any]:
        seconds = None if self.after is None else self.after.total_seconds()
        return {"at": self.at, "event": self.event, "details": self.details, "after_seconds": seconds}


async def tell_life(app: Penstock, document: int, *, tenant: str = "default") -> list[Moment]:
    """Everything that is known, oldest first."""
    events = await history(app, document, most=MOST, tenant=tenant)
    tries = await app.database.pool.repeat(partial(sql.tries, document=document, most=MOST))
    return _in_order([*map(_of_event, events), *map(_of_try, tries)])


def _of_event(event: Event) -> tuple[datetime, str, Mapping[str, Any]]:
    return event.at, event.event, event.details


def _of_try(row: Record) -> tuple[datetime, str, Mapping[str, Any]]:
    told = {key: row[key] for key in ("job", "number", "worker", "outcome", "seconds", "error") if row[key] is not None}
    return row["started_at"], "attempt", told


def _in_order(told: Sequence[tuple[datetime, str, Mapping[str, Any]]]) -> list[Moment]:
    moments: list[Moment] = []
    for at, event, details in sorted(told, key=lambda each: each[0]):  # stable: what has one time stays in its order
        moments.append(Moment(at, event, details, at - moments[-1].at if moments else None))
    return moments
