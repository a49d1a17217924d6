"""Facts: have a collection read by a language model, see how far that is, and find what it says, with the source of each."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.documents import find_collection, show_document
from penstock.knowledge import entities, extraction, facts
from penstock.knowledge.finding import Question, find_facts
from penstock.search import CollectionRef
from penstock.web.caller import Caller, Reads, Writes
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.parameters import CollectionName, DocumentId
from penstock.web.problems import RESPONSES
from penstock.web.search import choose

routes = APIRouter(tags=["facts"], responses=RESPONSES)


class MentionShown(BaseModel):
    """A thing that a fact is about."""

    model_config = ConfigDict(from_attributes=True)

    entity: int
    name: str
    type: str
    role: str = Field(description="about; of a relation from or to.")


class FactShown(BaseModel):
    """What a document says."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    statement: str
    kind: str
    relation: str | None = Field(description="Of a relation, which one.")
    quote: str = Field(description="The document's own words.")
    confidence: float = Field(description="From 0 to 1, as the model says.")
    document: int
    version: int
    name: str = Field(description="Of the document.")
    collection: str
    page: int
    start: int = Field(description="Where in the page's text the quote begins.")
    stop: int
    entities: list[MentionShown]


class FactHitShown(FactShown):
    """A fact that answers."""

    passage: str = Field(description="The sentences around the quote.")
    score: float


class FactsFound(BaseModel):
    """The hits, the best first."""

    hits: list[FactHitShown]
    more: bool = Field(description="Whether there are hits behind these: give offset.")
    took_ms: float


class EntityShown(BaseModel):
    """A thing that facts are about."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    type: str
    facts: int = Field(description="How many facts mention it.")


class ExtractionWish(BaseModel):
    """What shall be read."""

    model_config = ConfigDict(extra="forbid")

    again: bool = Field(False, description="Ask about everything again, also what was answered before.")
    keep: bool | None = Field(
        None,
        description="true: new versions are read unasked from now on; false: they are not, nor is anything now.",
    )


class ExtractionShown(BaseModel):
    """How far a collection is, by the present schema and model."""

    model_config = ConfigDict(from_attributes=True)

    documents: int = Field(description="Documents that search sees.")
    extracted: int = Field(description="Of them, those that were read.")
    partial: int = Field(description="Of those, those with parts that have no answer.")
    windows: int = Field(description="Parts of documents that were read.")
    facts: int
    rejected: int = Field(description="What the model said and was not taken: no quote, no known type, …")
    cost: float
    keeps: bool = Field(description="Whether new versions are read without being asked for.")


class ExtractionAsked(ExtractionShown):
    """The same, and how many documents were put in line."""

    asked: int


@routes.get("/api/facts/search")
async def search_facts(
    caller: Reads,
    *,
    q: Annotated[str, Query(max_length=2000, description="A question, or words.")],
    collection: Annotated[list[str] | None, Query(description="Only in these; may be repeated.")] = None,
    k: Annotated[int, Query(ge=1, le=100, description="Hits, at most.")] = 10,
    offset: Annotated[int, Query(ge=0, le=200, description="Hits to leave out first.")] = 0,
) -> FactsFound:
    """The facts that answer best, each with its quote and the passage around it."""
    chosen = await choose(caller, collection)
    refs = [CollectionRef(each.id, each.model, each.search_language) for each in chosen]
    found = await find_facts(caller.app.database, caller.product.models, Question(q, refs, k, offset))
    hits = [FactHitShown.model_validate(hit.answer()) for hit in found.hits]
    return FactsFound(hits=hits, more=found.more, took_ms=round(found.took * 1000, 1))


@routes.get("/api/documents/{id}/facts")
async def list_facts(caller: Reads, id: DocumentId, after: AfterNumber = 0, limit: Limit = 100) -> Page[FactShown, int]:  # noqa: A002
    """What was read in a document."""
    await show_document(caller.app, id, tenant=caller.tenant)  # or there is none
    found = await caller.app.database.pool.repeat(
        lambda session: facts.list_facts(session, id, after=after, most=limit + 1)
    )
    return cut([FactShown.model_validate(each) for each in found], limit, lambda each: each.id)


@routes.get("/api/collections/{collection}/entities")
async def list_entities(
    caller: Reads,
    collection: CollectionName,
    kind: Annotated[str | None, Query(alias="type", max_length=100, description="Only of this type.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[EntityShown, int]:
    """The things that the facts of a collection are about."""
    chosen = await find_collection(caller.app, collection, tenant=caller.tenant)
    found = await caller.app.database.pool.repeat(
        lambda session: entities.list_entities(session, chosen.id, kind=kind, after=after, most=limit + 1)
    )
    return cut([EntityShown.model_validate(each) for each in found], limit, lambda each: each.id)


@routes.post("/api/collections/{collection}/extract", status_code=202)
async def extract(caller: Writes, collection: CollectionName, wish: ExtractionWish) -> ExtractionAsked:
    """Have documents read that were not read yet, or not wholly; 503 when there is no language model."""
    chosen = await find_collection(caller.app, collection, tenant=caller.tenant)
    asked = await caller.product.extracting.ask(chosen, again=wish.again, keep=wish.keep)
    shown = await _status(caller, collection)
    return ExtractionAsked(**shown.model_dump(), asked=len(asked))


@routes.get("/api/collections/{collection}/extraction")
async def show_extraction(caller: Reads, collection: CollectionName) -> ExtractionShown:
    """How far a collection is. Without a language model: what was read, by whichever."""
    return await _status(caller, collection)


async def _status(caller: Caller, collection: str) -> ExtractionShown:
    chosen = await find_collection(caller.app, collection, tenant=caller.tenant)
    extracting = caller.product.extracting
    digest = extracting.plan.digest if extracting.has_model else None
    shown = await caller.app.database.pool.repeat(lambda session: extraction.show_status(session, chosen, digest))
    return ExtractionShown.model_validate(shown)
