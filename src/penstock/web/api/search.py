"""`/api/search`: the best passages for a question, and their places."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from penstock import search
from penstock.documents import Collection
from penstock.search import Hit
from penstock.web.dependencies import Caller, Reads, decode_metadata, in_utc
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api/search", tags=["search"], responses=RESPONSES)


class SearchResults(BaseModel):
    """The hits, best first."""

    hits: list[Hit]
    more: bool = Field(description="There are further hits: raise `offset`.")
    took_ms: float
    fallback: str | None = Field(None, description="Set when an index did not answer: what was done instead.")


@routes.get("")
async def find(  # noqa: PLR0913  a parameter of the request is an argument
    caller: Reads,
    *,
    q: Annotated[str, Query(max_length=2000, description="A question, or words.")],
    collection: Annotated[list[str] | None, Query(description="Only in these collections; may be repeated.")] = None,
    k: Annotated[int, Query(ge=1, le=100, description="Hits, at most.")] = 10,
    offset: Annotated[int, Query(ge=0, le=1000, description="Hits to skip.")] = 0,
    metadata: Annotated[str | None, Query(description="A JSON object that the document's metadata contains.")] = None,
    media_type: Annotated[
        list[str] | None, Query(alias="type", max_length=50, description="Only these media types.")
    ] = None,
    since: Annotated[
        datetime | None, Query(description="Only documents that were uploaded at this time or later.")
    ] = None,
    until: Annotated[datetime | None, Query(description="Only documents that were uploaded before this time.")] = None,
    mode: Literal["hybrid", "words", "vectors"] = "hybrid",
    neighbours: Annotated[int, Query(ge=0, le=10, description="Passages before and after each hit.")] = 0,
) -> SearchResults:
    """The passages that answer best, from all collections or from some."""
    chosen = await choose(caller, collection)
    found = await search.find(
        caller.app.database,
        caller.product.models,
        search.Query(
            text=q,
            collections=[
                search.CollectionRef(each.id, each.model, each.search_language, each.index) for each in chosen
            ],
            k=k,
            offset=offset,
            metadata=decode_metadata(metadata, "metadata") or None,
            media_types=media_type or [],
            since=in_utc(since),
            until=in_utc(until),
            mode=mode,
            neighbours=neighbours,
        ),
        caller.product.qdrant,
    )
    took = round(found.took * 1000, 1)
    return SearchResults(hits=found.hits, more=found.more, took_ms=took, fallback=found.fallback or None)


async def choose(caller: Caller, names: list[str] | None) -> list[Collection]:
    """The collections of these names, or all that the caller may see."""
    if not names:
        return await caller.collections()
    return [await caller.find_collection(name) for name in dict.fromkeys(names)]
