"""Extraction runs: the answers about the windows of a version, and extractions that are staged, current or old.

    begin ─▶ staged ── facts are written in batches, invisible to search ── publish ─▶ current ── a later one ─▶ old ─▶ removed

The answer about a window is kept by version and config (the digest of the configuration), so that only windows that failed are
asked about again. The jobs are in pipelines/facts.py.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from asyncpg import Record
from pydantic import Field

from penstock.database import Database, Session, statements
from penstock.documents import Collection
from penstock.knowledge.facts.validate import PageExcerpt
from penstock.knowledge.facts.windows import Window

sql = statements(__file__)

BATCH = 1_000  # facts that are removed in one transaction


@dataclass(frozen=True, slots=True)
class FactSource:
    document: int
    version: int
    tenant: str
    collection: int
    language: str  # of its words
    embedder: str  # the model of its vectors


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the model about a window."""

    window: int
    answer: Mapping[str, Any]
    tokens_in: int
    tokens_out: int
    cost: float


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The counts of an extraction that is published."""

    windows: int
    answered: int
    facts: int
    rejected: Mapping[str, int]
    gaps: Sequence[Mapping[str, Any]]
    tokens_in: int
    tokens_out: int
    cost: float


@dataclass(frozen=True, slots=True)
class ExtractionStatus:
    """The progress of a collection, by the present schema and model."""

    documents: Annotated[int, Field(description="Documents that are live.")]
    extracted: Annotated[int, Field(description="Documents whose facts were extracted.")]
    partial: Annotated[int, Field(description="Documents that were read only in part.")]
    windows: Annotated[int, Field(description="Parts of documents that were read.")]
    facts: int
    rejected: Annotated[int, Field(description="Entries of answers that were rejected: no quote, unknown type, …")]
    cost: float
    keeps: Annotated[bool, Field(description="Whether facts of new versions are extracted automatically.")]

    def answer(self) -> dict[str, Any]:
        return asdict(self)


# -- reading --------------------------------------------------------------------------------------------------------------


async def find_source(session: Session, document: int, version: int) -> FactSource | None:
    """The source of facts of a version; None when it is not live."""
    row = await sql.find_source.first(session, document=document, version=version)
    return None if row is None else FactSource(**row)


async def list_pages(session: Session, version: int, *, after: int, most: int) -> list[tuple[int, str]]:
    """Pages in their order, as long as they have so many characters together, but at least one."""
    rows = await sql.list_pages(session, version=version, after=after, most=most)
    return [(row["number"], row["text"]) for row in rows]


async def read_windows(session: Session, version: int, windows: Sequence[Window]) -> list[list[PageExcerpt]]:
    """The texts of windows, in one statement; text of a page that was deleted is left out."""
    spans = [span for window in windows for span in window]
    rows = await sql.read_spans(
        session,
        version=version,
        pages=[span.page for span in spans],
        starts=[span.start for span in spans],
        stops=[span.stop for span in spans],
    )
    texts = {row["place"]: row["text"] for row in rows}
    places = iter(range(1, len(spans) + 1))
    return [
        [PageExcerpt(span.page, span.start, texts[place]) for span in window if (place := next(places)) in texts]
        for window in windows
    ]


# -- windows --------------------------------------------------------------------------------------------------------------


async def answered_windows(session: Session, version: int, config: str) -> set[int]:
    return {row["ordinal"] for row in await sql.answered_windows(session, version=version, config=config)}


async def keep_answer(tx: Session, source: FactSource, config: str, answer: Answer) -> None:
    """Keep the answer, once for each window; nothing for a version that is not live any more."""
    await sql.keep_answer.run(
        tx,
        document=source.document,
        version=source.version,
        config=config,
        ordinal=answer.window,
        answer=json.dumps(
            answer.answer
        ),  # ASCII: NUL and halves of characters stay escapes, which the type json accepts
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
        cost=answer.cost,
    )


async def load_answers(session: Session, version: int, config: str, windows: Sequence[int]) -> dict[int, Answer]:
    rows = await sql.load_answers(session, version=version, config=config, ordinals=list(windows))
    return {
        row["ordinal"]: Answer(
            row["ordinal"], json.loads(row["answer"]), row["tokens_in"], row["tokens_out"], row["cost"]
        )
        for row in rows
    }


async def forget_answers(tx: Session, version: int, config: str) -> None:
    """Discard kept answers, to force their extraction again."""
    await sql.forget_answers.run(tx, version=version, config=config)


# -- extractions ----------------------------------------------------------------------------------------------------------


async def begin(tx: Session, source: FactSource, config: str, llm: str, job: int) -> int | None:
    """Begin an extraction, which is not visible yet; what an earlier attempt has staged is old. None: the version is gone."""
    await hold_entities(tx, source.collection)
    await sql.leave_staged.run(tx, document=source.document)
    number: int | None = await sql.begin.value(
        tx, document=source.document, version=source.version, config=config, llm=llm, embedder=source.embedder, job=job
    )
    return number


async def hold(tx: Session, source: FactSource, extraction: int) -> bool:
    """Lock the extraction at the beginning of a batch. False: the version is gone, and the extraction with it."""
    await hold_entities(tx, source.collection)
    return bool(await sql.hold.value(tx, extraction=extraction, document=source.document, version=source.version))


async def hold_entities(tx: Session, collection: int) -> None:
    """Add and remove mentions of a collection one transaction at a time: an entity never goes while it is mentioned."""
    await sql.hold_entities.run(tx, collection=collection)


async def standing_gaps(session: Session, source: FactSource) -> int | None:
    """The number of windows that the current extraction of this version lacks; None without such an extraction."""
    gaps: int | None = await sql.standing_gaps.value(session, document=source.document, version=source.version)
    return gaps


async def publish(tx: Session, source: FactSource, extraction: int, counts: RunCounts) -> bool:
    """staged -> current, and the one before is old. False: the version is gone, and nothing has changed."""
    if not await sql.hold_live.value(tx, document=source.document, version=source.version):
        return False
    await sql.retire.run(tx, document=source.document)
    written = {"rejected": json.dumps(counts.rejected), "gaps": json.dumps(counts.gaps)}
    published = await sql.publish.value(tx, extraction=extraction, **{**asdict(counts), **written})
    return published is not None


# -- what is missing, and what is left over ---------------------------------------------------------------------------------


async def list_wanted(
    session: Session, collection: int, config: str, *, every: bool = False, after: int = 0, most: int = 500
) -> list[Record]:
    """Live versions (document, version) that were not read by this config, or only in part; or `every` one."""
    return await sql.list_wanted(session, collection=collection, config=config, every=every, after=after, most=most)


async def list_unasked(session: Session, config: str, *, most: int = 500) -> list[Record]:
    """Versions of collections that keep facts automatically, of which no extraction has begun."""
    return await sql.list_unasked(session, config=config, most=most)


async def keep_facts(session: Session, collection: int, *, keeps: bool) -> None:
    await sql.keep_facts.run(session, collection=collection, keeps=keeps)


async def show_status(session: Session, collection: Collection, config: str | None) -> ExtractionStatus:
    """The status by this config; None: by any config."""
    row = await sql.show_status.first(session, collection=collection.id, config=config)
    return ExtractionStatus(**row) if row is not None else ExtractionStatus(0, 0, 0, 0, 0, 0, 0.0, keeps=False)


async def sweep_extractions(database: Database, *, most: int = 50) -> int:
    """Remove old extractions and those of dead jobs, in batches; how many facts."""
    removed = 0
    for row in await database.pool.repeat(sql.list_old, most=most):
        left = True
        while left:
            async with database.pool.transaction() as tx:
                await hold_entities(tx, row["collection_id"])
                batch = await sql.sweep.value(tx, extraction=row["id"], most=BATCH)
                removed += batch
                left = batch == BATCH
                if not left:
                    await sql.forget_extraction.run(tx, extraction=row["id"])
    return removed
