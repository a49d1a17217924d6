"""Counts over all tenants for the metrics: bounded, however many documents there are. The SQL is in census.sql."""

from penstock.database import Session, statements

sql = statements(__file__)

MOST = 10_000
BEGUN = 1_000  # jobs in each of the states that one can be in which has begun
EVENTS = 5_000


async def count_everywhere(session: Session) -> dict[str, int]:
    """By status; those that are queued or failed are counted to a bound. Beyond it, what search still sees is called ready."""
    [row] = await sql.count_everywhere(session, most=MOST, begun=BEGUN)
    return dict(row)


async def count_lately(session: Session) -> dict[str, int]:
    """What became of documents within an hour: accepted, ready, partial (ready with gaps), failed."""
    [row] = await sql.count_lately(session, most=EVENTS)
    return dict(row)
