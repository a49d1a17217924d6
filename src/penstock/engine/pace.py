"""How long jobs of a kind take, by what those took that ended lately; and when one that waits may begin.

Only the last `LATELY` jobs of the history are looked at, so that the question costs the same however many there are: a kind of
which none is among them has no pace. The SQL is in pace.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine.wording import span

sql = statements(__file__)

LATELY = 1_000  # jobs of the history
FEWEST = 3  # of a kind, to speak of what is usual
MOST_LANES = 50
MOST_ROWS = 50  # that are counted in each of them


@dataclass(frozen=True, slots=True)
class Pace:
    """What half of such jobs needed at most, and nine of ten."""

    usual: timedelta
    long: timedelta
    jobs: int  # that were measured
    like: str = "jobs of its kind"

    def tell(self, elapsed: timedelta) -> str:
        """When one that has run so long should end."""
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


def pace_of(row: Record | None, like: str = "jobs of its kind") -> Pace | None:
    """None where too few were measured."""
    if row is None or row["jobs"] < FEWEST:
        return None
    return Pace(timedelta(seconds=row["usual"]), timedelta(seconds=row["long"]), row["jobs"], like)


async def read_pace(session: Session, queue: str, kind: str) -> tuple[Pace | None, timedelta | None]:
    """Of a kind; and what a job of its queue takes on average, whatever its kind."""
    row = await sql.pace.first(session, most=LATELY, queue=queue, kind=kind)
    mean = None if row is None or row["of_queue"] is None else timedelta(seconds=row["of_queue"])
    return pace_of(row), mean


async def read_line(session: Session, *, queue: str, lane: int, priority: int) -> list[int]:
    """How many jobs wait in each of the other lanes that take turns with this one; both are counted to a bound."""
    rows = await sql.line(
        session, queue=queue, lane=lane, priority=priority, most_lanes=MOST_LANES, most_rows=MOST_ROWS
    )
    return [row["depth"] for row in rows]


def jobs_before(ahead: int, rivals: Sequence[int]) -> int:
    """Lanes take turns: while those ahead in its own lane go, each other lane gives as many, as far as it has them."""
    turns = ahead + 1
    return ahead + sum(turns if depth >= MOST_ROWS else min(depth, turns) for depth in rivals)


def expected_start(before: int, *, mean: timedelta | None, slots: int, running: int) -> timedelta | None:
    """About when so many jobs have begun; None where nothing was measured."""
    if running + before < slots:
        return timedelta(0)
    return None if mean is None or not slots else mean * (before + 1) / slots
