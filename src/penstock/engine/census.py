"""What waits, lane by lane, and who could take it: for `doctor` and the metrics. The SQL is in census.sql.

`oldest_age` counts from the enqueue, for a row does not say since when it is ready: a job that was delayed or retried looks
older than its wait.
"""

from dataclasses import dataclass
from datetime import timedelta

from penstock.database import Session, statements

sql = statements(__file__)

MOST_LANES = 200
MOST_ROWS = 10_000  # in all, but some of each lane and band
LEAST_ROWS = 100
LOOKED_AT = 20  # of each lane and band, for one that was never tried
MOST_COUNTED = 100_000  # jobs in one state


@dataclass(frozen=True)
class Waiting:
    """A lane with ready jobs."""

    queue: str
    kind: str
    share: str
    paused: bool
    open: bool  # for at least one live worker
    shut: bool  # for one that serves it, by a limit
    depth: int
    oldest_id: int
    oldest_age: timedelta


async def waiting_lanes(session: Session) -> list[Waiting]:
    """The lanes with ready jobs, oldest first; bounded in lanes and in what is counted in each."""
    rows = await sql.waiting_lanes(session, most_lanes=MOST_LANES, most_rows=MOST_ROWS, least_rows=LEAST_ROWS)
    return [Waiting(**row) for row in rows]


@dataclass(frozen=True)
class Wait:
    """How long a kind that is served waits for a worker: what its oldest ready job that was never tried says."""

    queue: str
    kind: str
    seconds: float


async def served_waits(session: Session) -> list[Wait]:
    """By kind, longest first. What was tried before or is paused is not counted: it may be old for good reasons."""
    rows = await sql.served_waits(session, most_lanes=MOST_LANES, looked_at=LOOKED_AT)
    return [Wait(**row) for row in rows]


async def count_states(session: Session) -> dict[str, int]:
    """Live jobs by state, counted to a bound."""
    row = await sql.count_states.first(session, most=MOST_COUNTED)
    return dict(row) if row is not None else {}


async def count_workers(session: Session) -> int:
    workers: int = await sql.count_workers.value(session)
    return workers
