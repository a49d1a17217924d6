"""The index of a collection: where its vectors are searched, and the next one while that is being built.

    choose ─▶ next_index, and a job ─▶ every version has what it needs there, counted ─▶ switch: index = next_index

PostgreSQL keeps all vectors, whatever the index is. From the commit of a choice for Qdrant on, a version becomes live only
after its points were counted there: who publishes shares the lock of the collection's models, and who chooses or switches
takes it alone. So one whole round that finds nothing to do is the check. The SQL is in reindexing.sql.
"""

from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Database, Session, statements
from penstock.documents.naming import share_of
from penstock.engine import Penstock
from penstock.errors import BadValue, WrongState

sql = statements(__file__)

REINDEX = "reindex_collection"
FORGET_POINTS = "forget_points"
DROP_INDEX = "drop_vector_index"
AFTER = timedelta(minutes=1)  # a question that has read the old index a moment ago still finds it
ABANDONED = 100  # collections in one look


class Superseded(Exception):
    """Another index, or the old one after all, was chosen meanwhile; or the collection is deleted."""


def check_index(app: Penstock, wanted: str) -> None:
    """Refuse what nobody could fill."""
    if wanted == "qdrant" and not app.settings.qdrant.url:
        raise BadValue("There is no Qdrant: set qdrant.url in the settings of the API and of the workers.")


async def choose_index(tx: Session, app: Penstock, row: Record, wanted: str) -> int | None:
    """Let a locked collection become what is wanted; the number of a job that has nothing to do any more."""
    collection, becoming = row["id"], row["next_index"]
    if wanted == (becoming or row["index"]) and (
        becoming is None or await sql.is_under_way.value(tx, job=row["index_job"])
    ):
        return None
    if row["next_model"] is not None:
        raise WrongState(
            f"The collection {row['name']} is about to have the model {row['next_model']}: reindex it when that is over, or "
            "choose its present model again to leave it."
        )
    number: int | None = row["index_job"]
    if not await sql.has_documents.value(tx, collection=collection):
        await sql.change_at_once.run(tx, collection=collection, index=wanted)
        await _tidy_up(tx, app, collection, unused="postgres" if wanted == "qdrant" else "qdrant")
    elif wanted == row["index"]:
        await sql.cancel_next.run(tx, collection=collection)
        await _tidy_up(tx, app, collection, unused=becoming)
    else:
        turn = row["index_turn"] + 1
        call = app.kinds[REINDEX](collection=collection, into=wanted, turn=turn)
        job = await app.enqueue(call, share=share_of(row["tenant"], row["name"]), tx=tx)
        await sql.begin_next.run(tx, collection=collection, index=wanted, job=job, turn=turn)
    return number


async def switch_index(tx: Session, app: Penstock, collection: int, turn: int) -> None:
    """Search uses the next index from the commit on; raises Superseded."""
    await sql.lock_models.run(tx, collection=collection)
    row: Any = await sql.lock_becoming.first(tx, collection=collection, turn=turn)
    if row is None:
        raise Superseded
    await sql.switch_index.run(tx, collection=collection)
    await _tidy_up(tx, app, collection, unused=row["index"])
    await sql.tell_changed.run(tx)


async def is_turn(session: Session, collection: int, turn: int) -> bool:
    """Whether the collection is still becoming what this turn wants."""
    return bool(await sql.is_turn.value(session, collection=collection, turn=turn))


async def is_searched_here(session: Session, collection: int) -> bool:
    """Whether PostgreSQL answers for its vectors, or is about to."""
    return bool(await sql.is_searched_here.value(session, collection=collection))


async def forget_has_points(tx: Session, collection: int) -> bool:
    """It was counted that there are none; False if it wants some by now."""
    await sql.lock_models.run(tx, collection=collection)
    return await sql.forget_has_points.value(tx, collection=collection) is not None


async def end_abandoned(database: Database, app: Penstock) -> int:
    """What becomes of no job any more, because that was cancelled or discarded, is left as it was; how many."""
    rows = await database.pool.repeat(lambda session: sql.list_abandoned(session, most=ABANDONED))
    ended = 0
    for row in rows:
        async with database.pool.transaction() as tx:
            await sql.lock_models.run(tx, collection=row["id"])
            if await sql.end_abandoned.value(tx, collection=row["id"], turn=row["index_turn"]) is not None:
                await _tidy_up(tx, app, row["id"], unused=row["next_index"])
                ended += 1
    return ended


async def _tidy_up(tx: Session, app: Penstock, collection: int, *, unused: str) -> None:
    """A job removes what an index that is not used leaves behind; it looks again before it does."""
    kind = app.kinds[FORGET_POINTS if unused == "qdrant" else DROP_INDEX]
    await app.enqueue(kind(collection=collection), run_in=AFTER, share="_system", tx=tx)
