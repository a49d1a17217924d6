"""What happened to documents, minute by minute: counted by a worker from the events, read by pages.

A page reads a few hundred rows, whatever the number of documents. What is younger than the last count is read from the events
themselves, so that a chart is never behind. The SQL is in minutes.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from penstock.database import Database, Session, statements

sql = statements(__file__)

AGAIN = timedelta(minutes=3)  # that are counted once more: longer than a transaction that writes events takes
KEPT = timedelta(days=8)
MOST = 500_000  # events of one count
TAIL = 50_000  # events that a page reads beside the counts
COUNTED_TO = 100_000  # documents that wait, in one collection, for the chart
SHOWN_TO = 1_000  # the same while somebody waits for the page
BITE = 10_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """What happened in a stretch of time."""

    at: datetime  # its beginning
    accepted: int = 0
    ready: int = 0
    failed: int = 0
    waiting: int = 0  # of the collection in which most waited
    oldest: float = 0.0  # seconds


@dataclass(frozen=True, slots=True)
class Waiting:
    """A collection in which documents wait."""

    name: str
    waiting: int
    oldest: timedelta


async def count_minutes(database: Database) -> int:
    """Bring the counts up to date; how many minutes have changed."""

    async def count(session: Session) -> int:
        if not await sql.has_minutes.value(session):
            return 0
        async with session.transaction():
            changed: int = await sql.count_minutes.value(session, again=AGAIN, most=MOST)
        await sql.sample_waiting.run(session, most=COUNTED_TO)
        await sql.forget_minutes.run(session, kept=KEPT, bite=BITE)
        return changed

    async with database.pool.session() as session:
        return await count(session)


async def read_minutes(
    database: Database,
    *,
    span: timedelta,
    step: timedelta,
    tenant: str = "default",
    collections: Sequence[int] | None = None,
) -> list[Bucket]:
    """The last stretch of time in steps, without a gap; the last one is under way."""
    asked = None if collections is None else list(collections)

    async def read(session: Session) -> tuple[datetime, dict[datetime, Bucket]]:
        if not await sql.has_minutes.value(session):
            return datetime.now(UTC), {}
        mark = await sql.read_mark.first(session)
        assert mark is not None  # noqa: S101  it has always one row
        event, since = mark["event"] or 0, mark["since"] or mark["now"] - span
        rows = await sql.read_minutes(
            session, span=span, step=step, tenant=tenant, collections=asked, event=event, since=since, most=TAIL
        )
        return mark["now"], {row["at"]: Bucket(**row) for row in rows}

    now, found = await database.pool.repeat(read)
    last = now - (now - datetime(2000, 1, 1, tzinfo=now.tzinfo)) % step
    times = [last - step * back for back in range(span // step - 1, -1, -1)]
    return [found.get(at, Bucket(at)) for at in times]


async def waiting_now(
    database: Database, *, tenant: str = "default", collections: Sequence[int] | None = None
) -> list[Waiting]:
    """The collections in which documents wait, most first."""
    asked = None if collections is None else list(collections)
    rows = await database.pool.repeat(partial(sql.waiting_now, tenant=tenant, collections=asked, most=SHOWN_TO))
    return [Waiting(**row) for row in rows]
