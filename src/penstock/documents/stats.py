"""Statistics of documents: bounded counts over all tenants for the metrics, and a time series by minute for pages.

A worker counts events by minute, so that a page reads a few hundred rows, whatever the number of documents. Events after the
last count are read directly, so that a chart is up to date.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.database import Database, Session, statements

sql = statements(__file__)

MOST_COUNTED = 10_000  # documents in one state, for the metrics
BEGUN = 1_000  # jobs in each of the states of one that has begun
EVENTS = 5_000  # of the last hour, for the metrics
AGAIN = timedelta(minutes=3)  # that are counted once more: longer than a transaction that writes events takes
KEPT = timedelta(days=8)
MOST_EVENTS = 500_000  # events of one count
TAIL = 50_000  # events that a page reads in addition to the counts
COUNTED_TO = 100_000  # documents that wait in one collection, for the chart
SHOWN_TO = 1_000  # the same, for a page
BATCH = 10_000  # old minutes that are removed at once


async def count_everywhere(session: Session) -> dict[str, int]:
    """Documents by status. Queued and failed ones are counted to a bound; beyond it they are ready if search sees them."""
    [row] = await sql.count_everywhere(session, most=MOST_COUNTED, begun=BEGUN)
    return dict(row)


async def count_lately(session: Session) -> dict[str, int]:
    """Documents of the last hour: accepted, ready, partial (only partly readable), failed."""
    [row] = await sql.count_lately(session, most=EVENTS)
    return dict(row)


@dataclass(frozen=True, slots=True)
class MinuteBucket:
    """The events of a span of time."""

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
    async with database.pool.session() as session:
        if not await sql.has_minutes.value(session):
            return 0
        async with session.transaction():
            changed: int = await sql.count_minutes.value(session, again=AGAIN, most=MOST_EVENTS)
        await sql.sample_waiting.run(session, most=COUNTED_TO)
        await sql.forget_minutes.run(session, kept=KEPT, batch=BATCH)
        return changed


async def read_minutes(
    database: Database,
    *,
    span: timedelta,
    step: timedelta,
    tenant: str = "default",
    collections: Sequence[int] | None = None,
) -> list[MinuteBucket]:
    """The last span of time in steps, without a gap; the last step is not over yet."""
    asked = None if collections is None else list(collections)

    async def read(session: Session) -> tuple[datetime, dict[datetime, MinuteBucket]]:
        if not await sql.has_minutes.value(session):
            return datetime.now(UTC), {}
        mark = await sql.read_mark.first(session)
        assert mark is not None  # noqa: S101  it has always one row
        event, since = mark["event"] or 0, mark["since"] or mark["now"] - span
        rows = await sql.read_minutes(
            session, span=span, step=step, tenant=tenant, collections=asked, event=event, since=since, most=TAIL
        )
        return mark["now"], {row["at"]: MinuteBucket(**row) for row in rows}

    now, found = await database.pool.repeat(read)
    last = now - (now - datetime(2000, 1, 1, tzinfo=now.tzinfo)) % step
    times = [last - step * back for back in range(span // step - 1, -1, -1)]
    return [found.get(at, MinuteBucket(at)) for at in times]


async def waiting_now(
    database: Database, *, tenant: str = "default", collections: Sequence[int] | None = None
) -> list[Waiting]:
    """The collections in which documents wait, most first."""
    asked = None if collections is None else list(collections)
    rows = await database.pool.repeat(sql.waiting_now, tenant=tenant, collections=asked, most=SHOWN_TO)
    return [Waiting(**row) for row in rows]
