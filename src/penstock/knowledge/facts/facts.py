"""Facts: each with its quote, the place of the quote in the document, and the entities that it is about; and their search.

Facts are written window by window, each in a savepoint: a window that the database refuses is undone, and the others
stay.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import asyncpg
from asyncpg import Record
from pydantic import Field

from penstock.database import Database, Session, statements
from penstock.knowledge.facts.runs import FactSource
from penstock.knowledge.facts.validate import Fact
from penstock.search import CollectionRef, Ranking, RowSearch, RowVectors, embed_question, snapshot_transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.search import ModelOpener

sql = statements(__file__)

SEARCH = RowSearch("facts", depth=200, candidates=600)  # some may be of versions or extractions that are hidden
AROUND = 300  # characters of the page before and after a quote
ENDS = ".!?。\n"


@dataclass(frozen=True, slots=True)
class Mention:
    """A thing that a fact is about."""

    entity: int
    name: str
    type: str
    role: Annotated[str, Field(description="about; of a relation from or to.")]


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A statement of a document."""

    id: int
    statement: str
    kind: str
    relation: Annotated[str | None, Field(description="The relation, if the fact is one.")]
    quote: Annotated[str, Field(description="The document's own words.")]
    confidence: Annotated[float, Field(description="From 0 to 1, as the model rates it.")]
    document: int
    version: int
    name: Annotated[str, Field(description="The name of the document.")]
    collection: str
    page: int
    start: Annotated[int, Field(description="Where in the page's text the quote begins.")]
    stop: int
    entities: Sequence[Mention]

    def answer(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Batch:
    """The facts of one window, their first position, and their vectors."""

    window: int
    first: int
    facts: Sequence[Fact]
    vectors: "NDArray[np.float32]"


async def stage(tx: Session, source: FactSource, extraction: int, batches: Iterable[Batch]) -> dict[int, str]:
    """Write facts, mentions and vectors; the windows that could not be written, with their reasons."""
    refused: dict[int, str] = {}
    likeness = RowVectors("facts", source.embedder)
    for batch in batches:
        try:
            async with tx.transaction():  # a savepoint
                numbers = await _write(tx, source, extraction, batch)
                await likeness.put(tx, source.collection, numbers, batch.vectors)
        except (
            asyncpg.DataError,
            asyncpg.IntegrityConstraintViolationError,
            asyncpg.ProgramLimitExceededError,
        ) as error:
            refused[batch.window] = type(error).__name__  # not its text, which quotes the row
    return refused


async def _write(tx: Session, source: FactSource, extraction: int, batch: Batch) -> list[int]:
    """The ids of the facts, in their order."""
    facts = batch.facts
    rows = await sql.write_facts(
        tx,
        tenant=source.tenant,
        collection=source.collection,
        version=source.version,
        extraction=extraction,
        first=batch.first,
        language=source.language,
        kinds=[fact.kind for fact in facts],
        relations=[fact.relation for fact in facts],
        statements=[fact.statement for fact in facts],
        quotes=[fact.place.quote for fact in facts],
        pages=[fact.place.page for fact in facts],
        starts=[fact.place.start for fact in facts],
        stops=[fact.place.stop for fact in facts],
        confidences=[fact.confidence for fact in facts],
    )
    numbers = [row["id"] for row in rows]
    mentions = [
        (number, thing, role) for number, fact in zip(numbers, facts, strict=True) for thing, role in fact.things
    ]
    if mentions:
        await sql.write_mentions.run(
            tx,
            tenant=source.tenant,
            collection=source.collection,
            facts=[number for number, _, _ in mentions],
            types=[thing.type for _, thing, _ in mentions],
            keys=[thing.key for _, thing, _ in mentions],
            names=[thing.name for _, thing, _ in mentions],
            roles=[role for _, _, role in mentions],
        )
    return numbers


async def list_facts(session: Session, document: int, *, after: int = 0, most: int = 100) -> list[ShownFact]:
    """The facts of a document, by id."""
    rows = await sql.list_facts(session, document=document, after=after, most=most)
    return await read_facts(session, rows)


async def read_facts(session: Session, rows: Sequence[Record]) -> list[ShownFact]:
    """Facts from rows of the fragment `shown`, with their mentions."""
    mentions = await mentions_of(session, [row["id"] for row in rows])
    return [read_fact(row, mentions.get(row["id"], [])) for row in rows]


async def mentions_of(session: Session, facts: Sequence[int]) -> Mapping[int, list[Mention]]:
    found: dict[int, list[Mention]] = {}
    for row in await sql.mentions_of(session, facts=list(facts)):
        found.setdefault(row["fact_id"], []).append(Mention(row["entity_id"], row["name"], row["type"], row["role"]))
    return found


def read_fact(row: Mapping[str, Any] | Record, mentions: Sequence[Mention]) -> ShownFact:
    told = {name: row[name] for name in ShownFact.__slots__ if name != "entities"}
    return ShownFact(**(told | {"confidence": round(row["confidence"], 4)}), entities=mentions)


# -- search by words and by meaning ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A question, its collections, and the page of the answer."""

    text: str
    collections: Sequence[CollectionRef]
    k: int = 10
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FactHit(ShownFact):
    """A fact that answers."""

    passage: Annotated[str, Field(description="The sentences around the quote.")]
    score: float


@dataclass(frozen=True, slots=True)
class FoundFacts:
    """One page of hits."""

    hits: Sequence[FactHit]
    more: bool
    took: float


async def find_facts(database: Database, models: "ModelOpener", question: Question) -> FoundFacts:
    began = time.monotonic()
    hits: list[FactHit] = []
    more = False
    if question.collections and question.text.strip():
        numbers = [each.id for each in question.collections]
        names = await database.pool.repeat(sql.models_of, collections=numbers)
        # A model that cannot be opened any more is left out: words still find the facts.
        asked = await embed_question(models, question.text, [row["embedder"] for row in names], skip_missing=True)
        async with snapshot_transaction(database, SEARCH.depth) as tx:
            ranking = await _rank(tx, question, asked)
            last = question.offset + question.k
            page = Ranking(ranking.keys[question.offset : last], ranking.scores[question.offset : last])
            hits, more = await _show(tx, page), len(ranking.keys) > last
    return FoundFacts(hits, more, time.monotonic() - began)


async def _rank(tx: Session, question: Question, asked: "Mapping[str, NDArray[np.float32]]") -> Ranking:
    collections = [each.id for each in question.collections]
    words = await sql.by_words(
        tx,
        question=question.text,
        languages=[each.language for each in question.collections],
        collections=collections,
        most=SEARCH.candidates,
    )

    async def visible(ids: list[int]) -> set[int]:
        return {row["id"] for row in await sql.visible_among(tx, ids=ids)}

    found = [(row["id"], row["score"]) for row in words]
    return await SEARCH.rank(tx, collections, found, asked, visible)


async def _show(tx: Session, ranking: Ranking) -> list[FactHit]:
    rows = await sql.show_hits(tx, ids=ranking.keys.tolist(), around=AROUND)
    facts = await read_facts(tx, rows)
    scores = ranking.scores.tolist()
    return [
        FactHit(
            **{each.name: getattr(fact, each.name) for each in fields(fact)},
            passage=_trim(row["before"], row["quote"], row["after"]),
            score=round(scores[row["place"] - 1], 6),
        )
        for row, fact in zip(rows, facts, strict=True)
    ]


def _trim(before: str, quote: str, after: str) -> str:
    """The quote with whole sentences around it, or whole words where those are long."""
    if len(before) >= AROUND:
        start = min((place for end in ENDS if (place := before.find(end)) >= 0), default=before.find(" "))
        before = before[start + 1 :]
    if len(after) >= AROUND:
        stop = max(max(after.rfind(end) for end in ENDS) + 1, 0) or max(after.rfind(" "), 0)
        after = after[:stop]
    return f"{before.lstrip()}{quote}{after.rstrip()}"
