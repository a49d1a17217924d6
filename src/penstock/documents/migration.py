"""Migration of a collection to another embedding model, or to another index of its vectors.

    choose ─▶ next_model, and a job ─▶ every live version has its vectors ─▶ switch: model = next_model
    choose ─▶ next_index, and a job ─▶ every live version is in it        ─▶ switch: index = next_index

Publishing a version takes a shared lock on the models of its collection until the commit, and a switch takes it exclusively:
a version that was prepared without the next model never becomes live after a switch. A version that becomes live without it
before the switch is noted as late, and the switch waits until none is late, so that its own check is short however large the
collection is. The lock is taken before the collection's row. The jobs are in pipelines/migration.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asyncpg import Record

from penstock.database import Database, Session, statements
from penstock.documents.names import fairness_key_of
from penstock.engine import Penstock
from penstock.errors import BadValue, RateLimited, WrongState

if TYPE_CHECKING:
    from penstock.documents.publication import Work

sql = statements(__file__)

REEMBED = "reembed_collection"
FORGET = "forget_vectors"
REINDEX = "reindex_collection"
FORGET_POINTS = "forget_points"
DROP_INDEX = "drop_vector_index"
FORGET_AFTER = timedelta(minutes=1)  # a query that has just read the old name still finds its vectors or index
LATE = 10_000  # late versions in one round
ABANDONED = 100  # collections in one check


class ModelChangeSuperseded(Exception):
    """Another model, or the old one after all, was chosen meanwhile; or the collection is deleted."""


class IndexChangeSuperseded(Exception):
    """Another index, or the old one after all, was chosen meanwhile; or the collection is deleted."""


class NotComplete(Exception):
    """A version came late: its vectors have to be checked before the switch."""


class ModelChanged(RateLimited):
    """The collection has another model than the one that a version was prepared with: it is prepared again."""


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """A version that search sees."""

    document: int
    version: int
    chunks: int


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Chunks of a version that follow each other."""

    version: int
    first: int
    stop: int


# -- choosing ---------------------------------------------------------------------------------------------------------


async def lock_models(tx: Session, collection: int) -> None:
    """Keep versions from being published into the collection until the commit; call it before locking its row."""
    await sql.lock_models.run(tx, collection=collection)


async def choose_model(tx: Session, app: Penstock, row: Record, wanted: str) -> int | None:
    """Begin the change of a locked collection to this model; the id of a job that has nothing to do any more."""
    collection, becoming = row["id"], row["next_model"]
    if wanted == (becoming or row["model"]) and (
        becoming is None or await sql.is_under_way.value(tx, job=row["next_job"])
    ):
        return None
    if row["has_points"]:
        raise WrongState(
            f"The vectors of {row['name']} are in Qdrant, and those of another model cannot be built there: first "
            f"`penstock collections reindex {row['name']} --into postgres`, then choose the model, then move it back to qdrant."
        )
    if not await sql.has_documents.value(tx, collection=collection):
        await sql.change_at_once.run(tx, collection=collection, model=wanted)
    elif wanted == row["model"]:
        await sql.cancel_next.run(tx, collection=collection)
    else:
        turn = row["model_turn"] + 1
        call = app.kinds[REEMBED](collection=collection, model=wanted, turn=turn)
        job = await app.enqueue(call, fairness_key=fairness_key_of(row["tenant"], row["name"]), tx=tx)
        await sql.begin_next.run(tx, collection=collection, model=wanted, job=job, turn=turn)
    if becoming not in (None, wanted):
        await sql.forget_all_late.run(tx, collection=collection)
        await forget_later(tx, app, collection, becoming)
    number: int | None = row["next_job"]
    return number


async def forget_later(tx: Session, app: Penstock, collection: int, model: str) -> None:
    """Enqueue the removal of the vectors of a model that the collection does not use; the job checks that again."""
    await app.enqueue(
        app.kinds[FORGET](collection=collection, model=model), run_in=FORGET_AFTER, fairness_key="_system", tx=tx
    )


# -- publishing -------------------------------------------------------------------------------------------------------


async def settle_models(tx: Session, work: "Work", held: Record, *, staged: Sequence[str]) -> list[str]:
    """Check a version that is published against the models of its collection, whose lock the caller holds.

    `staged` are the models whose vectors are there for all chunks. Returns those whose vectors were staged for nothing; raises
    ModelChanged, which prepares the version again, when the collection has another model by now.
    """
    if held["model_turn"] == work.model_turn and held["next_model"] in (None, *staged):
        return []
    # With more than one turn in between, the staged vectors may have been removed: only the number of turns can tell.
    unchanged = held["model_since"] <= work.model_turn
    became = held["model_turn"] == work.model_turn + 1 and held["model"] == work.next_model and held["model"] in staged
    if not (unchanged or became):
        raise ModelChanged(
            f"The collection {work.collection_name} has just changed its embedding model: the document is prepared "
            "again.",
            retry_after=1,
        )
    if held["next_model"] is not None:
        await sql.note_late.run(tx, collection=work.collection, version=work.version)
    kept = (None, held["model"], held["next_model"])
    return [model for model in (work.model, work.next_model) if model not in kept and model is not None]


async def complete_versions(tx: Session, collection: int, versions: Sequence[int]) -> set[int]:
    """The versions among these, live once, that a restore can make live as they are; the others are prepared again.

    Vectors of versions that are not live do not follow a change of the model.
    """
    from penstock.search import VectorTable

    row = await sql.hold_models.first(tx, collection=collection)
    if row is None:
        return set()
    table = VectorTable(row["model"])
    counts = await table.counts(tx, collection, versions) if await table.exists(tx) else {}
    chunks = await sql.chunks_of(tx, versions=list(versions))
    complete = {each["id"] for each in chunks if each["chunks"] == counts.get(each["id"], 0)}
    if row["next_model"] is not None:
        for version in sorted(complete):
            await sql.note_late.run(tx, collection=collection, version=version)
    return complete


# -- the work of the job ----------------------------------------------------------------------------------------------


async def hold_turn(tx: Session, collection: int, turn: int) -> None:
    """Hold the collection at this turn of its models until the commit; raises ModelChangeSuperseded."""
    await sql.hold_models(tx, collection=collection)
    if not await sql.is_turn.value(tx, collection=collection, turn=turn):
        raise ModelChangeSuperseded


async def is_wanted(tx: Session, collection: int, model: str) -> bool:
    """Whether the collection uses or builds these vectors; until the commit it stays so."""
    await sql.hold_models(tx, collection=collection)
    return bool(await sql.is_wanted.value(tx, collection=collection, model=model))


async def list_live(session: Session, collection: int, *, after: int, most: int) -> list[LiveVersion]:
    """Live versions by the ids of their documents, after one of them."""
    return [LiveVersion(**row) for row in await sql.list_live(session, collection=collection, after=after, most=most)]


async def live_among(session: Session, versions: Sequence[int]) -> set[int]:
    return {row["live_id"] for row in await sql.live_among(session, versions=list(versions))}


async def count_live_chunks(session: Session, collection: int) -> int:
    number: int = await sql.live_chunks.value(session, collection=collection)
    return number


async def read_spans(session: Session, spans: Sequence[ChunkSpan]) -> list[Record]:
    """The chunks of these spans: version, ordinal, heading, text."""
    return await sql.read_spans(
        session,
        versions=[span.version for span in spans],
        firsts=[span.first for span in spans],
        stops=[span.stop for span in spans],
    )


async def list_late(session: Session, collection: int) -> list[int]:
    return [row["version_id"] for row in await sql.list_late(session, collection=collection, most=LATE)]


async def switch_model(tx: Session, app: Penstock, collection: int, turn: int, seen: Sequence[int]) -> None:
    """Search uses the next model from the commit on. `seen` are the late versions that were checked since.

    Raises ModelChangeSuperseded, or NotComplete when other versions came late: then nothing is changed.
    """
    await sql.lock_models.run(tx, collection=collection)
    row: Any = await sql.lock_becoming.first(tx, collection=collection, turn=turn)
    if row is None:
        raise ModelChangeSuperseded
    await sql.forget_late.run(tx, collection=collection, versions=list(seen))
    if await sql.is_anyone_late.value(tx, collection=collection):
        raise NotComplete
    await sql.switch_model.run(tx, collection=collection)
    await forget_later(tx, app, collection, row["model"])
    await sql.record_model_change.run(tx)


# -- the index ---------------------------------------------------------------------------------------------------------


def check_index(app: Penstock, wanted: str) -> None:
    """Refuse Qdrant when it is not configured."""
    if wanted == "qdrant" and not app.settings.qdrant.url:
        raise BadValue("Qdrant is not configured: set qdrant.url in the settings of the API and of the workers.")


async def choose_index(tx: Session, app: Penstock, row: Record, wanted: str) -> int | None:
    """Begin the change of a locked collection to this index; the id of a job that has nothing to do any more."""
    collection, becoming = row["id"], row["next_index"]
    if wanted == (becoming or row["index"]) and (
        becoming is None or await sql.is_under_way_index.value(tx, job=row["index_job"])
    ):
        return None
    if row["next_model"] is not None:
        raise WrongState(
            f"The collection {row['name']} is changing to the model {row['next_model']}: reindex it when that is over, or "
            "choose its present model again to keep it."
        )
    number: int | None = row["index_job"]
    if not await sql.has_documents_index.value(tx, collection=collection):
        await sql.change_at_once_index.run(tx, collection=collection, index=wanted)
        await _tidy_up(tx, app, collection, unused="postgres" if wanted == "qdrant" else "qdrant")
    elif wanted == row["index"]:
        await sql.cancel_next_index.run(tx, collection=collection)
        await _tidy_up(tx, app, collection, unused=becoming)
    else:
        turn = row["index_turn"] + 1
        call = app.kinds[REINDEX](collection=collection, into=wanted, turn=turn)
        job = await app.enqueue(call, fairness_key=fairness_key_of(row["tenant"], row["name"]), tx=tx)
        await sql.begin_next_index.run(tx, collection=collection, index=wanted, job=job, turn=turn)
    return number


async def switch_index(tx: Session, app: Penstock, collection: int, turn: int) -> None:
    """Search uses the next index from the commit on; raises IndexChangeSuperseded."""
    await sql.lock_collection.run(tx, collection=collection)
    row: Any = await sql.lock_becoming_index.first(tx, collection=collection, turn=turn)
    if row is None:
        raise IndexChangeSuperseded
    await sql.switch_index.run(tx, collection=collection)
    await _tidy_up(tx, app, collection, unused=row["index"])
    await sql.record_index_change.run(tx)


async def is_turn(session: Session, collection: int, turn: int) -> bool:
    """Whether the collection is still becoming what this turn wants."""
    return bool(await sql.is_turn_index.value(session, collection=collection, turn=turn))


async def is_searched_here(session: Session, collection: int) -> bool:
    """Whether PostgreSQL answers for its vectors, or is about to."""
    return bool(await sql.is_searched_here.value(session, collection=collection))


async def forget_has_points(tx: Session, collection: int) -> bool:
    """Note that Qdrant has no points of the collection, as counted; False if it needs some by now."""
    await sql.lock_collection.run(tx, collection=collection)
    return await sql.forget_has_points.value(tx, collection=collection) is not None


async def end_abandoned(database: Database, app: Penstock) -> int:
    """Give up changes of the index whose job was cancelled or discarded; how many."""
    rows = await database.pool.repeat(sql.list_abandoned, most=ABANDONED)
    ended = 0
    for row in rows:
        async with database.pool.transaction() as tx:
            await sql.lock_collection.run(tx, collection=row["id"])
            if await sql.end_abandoned.value(tx, collection=row["id"], turn=row["index_turn"]) is not None:
                await _tidy_up(tx, app, row["id"], unused=row["next_index"])
                ended += 1
    return ended


async def _tidy_up(tx: Session, app: Penstock, collection: int, *, unused: str) -> None:
    """Enqueue the removal of an index that is not used; the job checks that again."""
    kind = app.kinds[FORGET_POINTS if unused == "qdrant" else DROP_INDEX]
    await app.enqueue(kind(collection=collection), run_in=FORGET_AFTER, fairness_key="_system", tx=tx)
