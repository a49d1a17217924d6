"""What waits, lane by lane, and who could take it: for `doctor` and the metrics. The SQL is in census.sql.

`oldest_age` counts from the enqueue, for a row does not say since when it is ready: a job that was delayed or retried looks
older than its wait.
"""

from dataclasses import dataclass
from datetime import timedelta

from penstock.database import Session, statements

sql = statements(__file__)

MOST_LANES = 200
MOST_ROWS = 10_000  # per lane and band
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
    rows = await sql.waiting_lanes(session, most_lanes=MOST_LANES, most_rows=MOST_ROWS)
    return [Waiting(**row) for row in rows]


async def count_states(session: Session) -> dict[str, int]:
    """Live jobs by state, counted to a bound."""
    row = await sql.count_states.first(session, most=MOST_COUNTED)
    return dict(row) if row is not None else {}


async def count_workers(session: Session) -> int:
    workers: int = await sql.count_workers.value(session)
    return workers
