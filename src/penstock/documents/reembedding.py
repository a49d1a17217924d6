"""The models of a collection: the one that search uses, and the next one while its vectors are being made.

    choose ─▶ next_model, and a job ─▶ every live version has its vectors ─▶ switch: model = next_model

Who publishes a version holds the models of its collection (a shared lock until the commit) and the switch takes them alone: a
version that was prepared without the new model never becomes live behind a switch. A version that becomes live meanwhile
without it is noted as late, and a switch waits until there is none: so its own check is short however large the collection
is. The lock comes before the collection's row. The SQL is in reembedding.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.naming import share_of
from penstock.engine import Penstock
from penstock.errors import RateLimited, WrongState

if TYPE_CHECKING:
    from penstock.documents.publish import Work

sql = statements(__file__)

REEMBED = "reembed_collection"
FORGET = "forget_vectors"
FORGET_AFTER = timedelta(minutes=1)  # a question that has read the old name a moment ago still finds its vectors
LATE = 10_000  # late versions that are looked at in one round


class Superseded(Exception):
    """Another model, or the old one after all, was chosen meanwhile; or the collection is deleted."""


class NotComplete(Exception):
    """A version came late: its vectors have to be looked at before the switch."""


class ModelChanged(RateLimited):
    """The collection has another model than the one that a version was prepared with: it is prepared again."""


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """A version that search sees."""

    document: int
    version: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Span:
    """Chunks of a version that follow each other."""

    version: int
    first: int
    stop: int


# -- choosing ---------------------------------------------------------------------------------------------------------


async def lock_models(tx: Session, collection: int) -> None:
    """Nobody publishes into the collection until the commit; to be taken before its row."""
    await sql.lock_models.run(tx, collection=collection)


async def choose_model(tx: Session, app: Penstock, row: Record, wanted: str) -> int | None:
    """Let a locked collection become what is wanted; the number of a job that has nothing to do any more."""
    collection, becoming = row["id"], row["next_model"]
    if wanted == (becoming or row["model"]) and (
        becoming is None or await sql.is_under_way.value(tx, job=row["next_job"])
    ):
        return None
    if row["has_points"]:
        raise WrongState(
            f"The vectors of {row['name']} are in Qdrant, and those of another model cannot be built there beside them: first "
            f"`penstock reindex {row['name']} --into postgres`, then choose the model, then reindex it into qdrant again."
        )
    if not await sql.has_documents.value(tx, collection=collection):
        await sql.change_at_once.run(tx, collection=collection, model=wanted)
    elif wanted == row["model"]:
        await sql.cancel_next.run(tx, collection=collection)
    else:
        turn = row["model_turn"] + 1
        call = app.kinds[REEMBED](collection=collection, model=wanted, turn=turn)
        job = await app.enqueue(call, share=share_of(row["tenant"], row["name"]), tx=tx)
        await sql.begin_next.run(tx, collection=collection, model=wanted, job=job, turn=turn)
    if becoming not in (None, wanted):
        await sql.forget_all_late.run(tx, collection=collection)
        await forget_later(tx, app, collection, becoming)
    number: int | None = row["next_job"]
    return number


async def forget_later(tx: Session, app: Penstock, collection: int, model: str) -> None:
    """Let a job remove the vectors of a model that the collection does not use; it looks again before it does."""
    await app.enqueue(
        app.kinds[FORGET](collection=collection, model=model), run_in=FORGET_AFTER, share="_system", tx=tx
    )


# -- publishing -------------------------------------------------------------------------------------------------------


async def settle_models(tx: Session, work: "Work", held: Record, *, staged: Sequence[str]) -> list[str]:
    """What a publish means for the models, which it holds; `staged` are those whose vectors are there for all chunks.

    Raises what makes the job come again when the model of the collection is another one by now. Returns models whose vectors
    were staged for nothing.
    """
    if held["model_turn"] == work.model_turn and held["next_model"] in (None, *staged):
        return []
    # With more than one turn in between, the staged vectors may have been removed: only the number of turns can tell.
    unchanged = held["model_since"] <= work.model_turn
    became = held["model_turn"] == work.model_turn + 1 and held["model"] == work.next_model and held["model"] in staged
    if not (unchanged or became):
        raise ModelChanged(
            f"The collection {work.collection_name} has another embedding model since a moment ago: the document is prepared "
            "again.",
            retry_after=1,
        )
    if held["next_model"] is not None:
        await sql.note_late.run(tx, collection=work.collection, version=work.version)
    kept = (None, held["model"], held["next_model"])
    return [model for model in (work.model, work.next_model) if model not in kept and model is not None]


async def complete_versions(tx: Session, collection: int, versions: Sequence[int]) -> set[int]:
    """Those of these versions, live once, that can become live again as they are; the others have to be prepared again.

    For what is restored: vectors of versions that are not live do not follow a change of the model.
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
    """Until the commit the collection is becoming what this turn wants; raises Superseded if it is not."""
    await sql.hold_models(tx, collection=collection)
    if not await sql.is_turn.value(tx, collection=collection, turn=turn):
        raise Superseded


async def is_wanted(tx: Session, collection: int, model: str) -> bool:
    """Whether the collection uses or builds these vectors; until the commit it stays so."""
    await sql.hold_models(tx, collection=collection)
    return bool(await sql.is_wanted.value(tx, collection=collection, model=model))


async def list_live(session: Session, collection: int, *, after: int, most: int) -> list[LiveVersion]:
    """Live versions in the order of their documents' numbers, behind that of one document."""
    return [LiveVersion(**row) for row in await sql.list_live(session, collection=collection, after=after, most=most)]


async def live_among(session: Session, versions: Sequence[int]) -> set[int]:
    return {row["live_id"] for row in await sql.live_among(session, versions=list(versions))}


async def count_live_chunks(session: Session, collection: int) -> int:
    number: int = await sql.live_chunks.value(session, collection=collection)
    return number


async def read_spans(session: Session, spans: Sequence[Span]) -> list[Record]:
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
    """Search uses the next model from the commit on. `seen` are the late versions that were looked at since.

    Raises Superseded, or NotComplete when other versions came late: then nothing is changed.
    """
    await sql.lock_models.run(tx, collection=collection)
    row: Any = await sql.lock_becoming.first(tx, collection=collection, turn=turn)
    if row is None:
        raise Superseded
    await sql.forget_late.run(tx, collection=collection, versions=list(seen))
    if await sql.is_anyone_late.value(tx, collection=collection):
        raise NotComplete
    await sql.switch_model.run(tx, collection=collection)
    await forget_later(tx, app, collection, row["model"])
    await sql.tell_changed.run(tx)
