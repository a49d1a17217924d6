"""Live jobs by number, for people. No list costs more because there are a million others.

A state that few are in is read from its own small index, to a bound. Otherwise jobs are looked through by number, a bounded
number at a time: a page may then be short, or even empty, and still say where to go on. The SQL is in listing.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements

sql = statements(__file__)

FEW = 2_000  # jobs of one state that are read from its index
WINDOW = 50_000  # jobs that are looked through for one page


@dataclass(frozen=True)
class Wanted:
    """Which live jobs; None is any."""

    state: str | None = None
    kind: str | None = None
    queue: str | None = None
    share: str | None = None

    @property
    def lanes(self) -> dict[str, Any]:
        named = {"kind": self.kind, "queue": self.queue, "share": self.share}
        return {**named, "any_lane": not any(named.values())}


@dataclass(frozen=True)
class Listed:
    """A page; `next` is the number after which to go on, None at the end."""

    jobs: Sequence[Record]
    next: int | None


async def list_jobs(session: Session, wanted: Wanted, *, after: int = 0, most: int = 50) -> Listed:
    """The live jobs after a number; by keyset, the caller passes the `next` of the page before."""
    values: dict[str, Any] = {"after": after, "most": most + 1, **wanted.lanes}
    if wanted.state is not None:
        rows = await getattr(sql, f"few_{wanted.state}")(session, bound=FEW + 1, **values)
        if rows[0]["seen"] <= FEW:
            return _cut([row for row in rows if row["id"] is not None], most)
    found = await sql.walk_jobs(session, state=wanted.state, window=WINDOW, **values)
    if len(found) > most:
        return _cut(found, most)
    return Listed(found, await sql.walked_to.value(session, after=after, window=WINDOW))


def _cut(found: Sequence[Record], most: int) -> Listed:
    return Listed(found[:most], found[most - 1]["id"] if len(found) > most else None)
