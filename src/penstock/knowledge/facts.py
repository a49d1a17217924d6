"""Facts as they are kept and shown: each with its quote, the place where that stands, and the things that it is about.

Writing goes window by window, each in a savepoint: one that the database does not take leaves no trace, and the others stay.
The SQL is in facts.sql.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg import Record

from penstock.database import Session, statements
from penstock.knowledge.extraction import Source
from penstock.knowledge.reading import Fact
from penstock.search.likeness import Likeness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class Mention:
    """A thing that a fact is about, or an end of a relation."""

    entity: int
    name: str
    type: str
    role: str


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact that can be found."""

    id: int
    statement: str
    kind: str
    relation: str | None
    quote: str
    confidence: float
    document: int
    version: int
    name: str  # of the document
    collection: str
    page: int
    start: int
    stop: int
    entities: Sequence[Mention]

    def answer(self) -> dict[str, Any]:
        """For JSON."""
        told = {name: getattr(self, name) for name in self.__slots__}
        entities = [{name: getattr(each, name) for name in each.__slots__} for each in self.entities]
        return told | {"entities": entities}


@dataclass
class Batch:
    """What one window gives: its facts, from which number on, and their vectors."""

    window: int
    first: int
    facts: Sequence[Fact]
    vectors: "NDArray[np.float32]"


async def stage(tx: Session, source: Source, extraction: int, batches: Iterable[Batch]) -> dict[int, str]:
    """Write facts, mentions and vectors; the windows that could not be written, with the reason."""
    refused: dict[int, str] = {}
    likeness = Likeness("facts", source.embedder)
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


async def _write(tx: Session, source: Source, extraction: int, batch: Batch) -> list[int]:
    """The numbers of the facts, in their order."""
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
    """Of a document, by their numbers."""
    rows = await sql.list_facts(session, document=document, after=after, most=most)
    return await read_facts(session, rows)


async def read_facts(session: Session, rows: Sequence[Record]) -> list[ShownFact]:
    """Rows of the fragment `shown`, with what they mention."""
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
