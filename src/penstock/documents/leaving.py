"""Points that must go: versions that were replaced or removed, and are not yet counted to be gone from the other index.

A row, and the job that removes, are written in the transaction that decides it (cleaning.py, removal.py); the row goes in the
one that follows the count. A receipt is verified when none of its versions has a row. The SQL is in leaving.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.database import Session, statements
from penstock.documents.deletion import call_alone
from penstock.engine import Penstock

sql = statements(__file__)

REMOVE_POINTS = "remove_points"  # the kind of the job, and its unique key
POINTS_QUEUE = "points"


@dataclass(frozen=True, slots=True)
class Leaving:
    """A version whose points must go, and the model that they are of."""

    version: int
    model: str


async def note_leaving(tx: Session, collection: int, versions: Sequence[int]) -> None:
    """The points of these versions must go, if the collection may have some; the last thing in its transaction."""
    if await sql.note_leaving(tx, collection=collection, versions=list(versions)):
        await call_alone(tx, REMOVE_POINTS, POINTS_QUEUE)


async def list_leaving(session: Session, *, most: int) -> list[Leaving]:
    """The next ones, all of one model."""
    return [Leaving(**row) for row in await sql.list_leaving(session, most=most)]


async def forget_leaving(tx: Session, versions: Sequence[int]) -> None:
    """They were counted, and there was none."""
    await sql.forget_leaving.run(tx, versions=list(versions))


async def call_leaving(app: Penstock) -> bool:
    """Have points removed, if there are some to remove and nobody does it yet."""
    if REMOVE_POINTS not in app.kinds or not await app.database.pool.repeat(sql.is_any_leaving.value):
        return False
    call = app.kinds[REMOVE_POINTS]()
    job = await app.enqueue(call, unique=REMOVE_POINTS, share="_system")
    # A dead one has the key, and would keep it for ever: its failure stays in the history, and another one tries.
    if not job.created and await app.discard(job, reason="another one removes what is left"):
        await app.enqueue(call, unique=REMOVE_POINTS, share="_system")
    return True
