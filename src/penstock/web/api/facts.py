"""Facts: extract them from a collection with a language model, follow that, and search them, each with its source."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.documents import show_document
from penstock.knowledge import facts
from penstock.knowledge.facts import Entity, ExtractionStatus, FactHit, Question, ShownFact, find_facts, show_status
from penstock.search import CollectionRef
from penstock.web.api.search import choose
from penstock.web.dependencies import AfterNumber, CollectionName, DocumentId, Limit, Page, Reads, Writes, cut
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(tags=["facts"], responses=RESPONSES)


class FactResults(BaseModel):
    """The hits, best first."""

    hits: Sequence[FactHit]
    more: bool = Field(description="There are further hits: raise `offset`.")
    took_ms: float


class ExtractionRequest(BaseModel):
    """The extraction to start."""

    model_config = ConfigDict(extra="forbid")

    again: bool = Field(False, description="Extract everything again, also what was extracted before.")
    keep: bool | None = Field(
        None,
        description="true: extract from new versions automatically from now on; false: stop that, and start nothing.",
    )


@dataclass(frozen=True, slots=True)
class StartedExtraction(ExtractionStatus):
    """The extraction, and how many documents were enqueued."""

    asked: int


@routes.get("/api/facts/search")
async def search_facts(
    caller: Reads,
    *,
    q: Annotated[str, Query(max_length=2000, description="A question, or words.")],
    collection: Annotated[list[str] | None, Query(description="Only in these collections; may be repeated.")] = None,
    k: Annotated[int, Query(ge=1, le=100, description="Hits, at most.")] = 10,
    offset: Annotated[int, Query(ge=0, le=200, description="Hits to skip.")] = 0,
) -> FactResults:
    """The facts that answer best, each with its quote and the passage around it."""
    chosen = await choose(caller, collection)
    refs = [CollectionRef(each.id, each.model, each.search_language) for each in chosen]
    found = await find_facts(caller.app.database, caller.product.models, Question(q, refs, k, offset))
    return FactResults(hits=found.hits, more=found.more, took_ms=round(found.took * 1000, 1))


@routes.get("/api/documents/{id}/facts")
async def list_facts(caller: Reads, id: DocumentId, after: AfterNumber = 0, limit: Limit = 100) -> Page[ShownFact, int]:  # noqa: A002
    """The facts of a document."""
    await show_document(caller.app, id, tenant=caller.tenant)  # or NotFound
    found = await caller.app.database.pool.repeat(facts.list_facts, id, after=after, most=limit + 1)
    return cut(found, limit, lambda each: each.id)


@routes.get("/api/collections/{collection}/entities")
async def list_entities(
    caller: Reads,
    collection: CollectionName,
    kind: Annotated[str | None, Query(alias="type", max_length=100, description="Only of this type.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[Entity, int]:
    """The entities that the facts of a collection are about."""
    chosen = await caller.find_collection(collection)
    found = await caller.app.database.pool.repeat(
        facts.list_entities, chosen.id, kind=kind, after=after, most=limit + 1
    )
    return cut(found, limit, lambda each: each.id)


@routes.post("/api/collections/{collection}/extract", status_code=202)
async def extract(caller: Writes, collection: CollectionName, body: ExtractionRequest) -> StartedExtraction:
    """Extract facts from documents that are missing some; 503 without a language model."""
    chosen = await caller.find_collection(collection)
    asked = await caller.product.facts.ask(chosen, again=body.again, keep=body.keep)
    shown = await show_extraction(caller, collection)
    return StartedExtraction(**asdict(shown), asked=len(asked))


@routes.get("/api/collections/{collection}/extraction")
async def show_extraction(caller: Reads, collection: CollectionName) -> ExtractionStatus:
    """The progress of a collection. Without a language model: what was extracted, by any model."""
    chosen = await caller.find_collection(collection)
    extracting = caller.product.facts
    digest = extracting.config.digest if extracting.has_model else None
    return await caller.app.database.pool.repeat(show_status, chosen, digest)
