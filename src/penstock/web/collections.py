"""`/api/collections`: create, list, show with counts, rename and change, delete."""

from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock import documents
from penstock.web.caller import Admins, Reads, Writes
from penstock.web.paging import Limit, Page, cut
from penstock.web.parameters import CollectionName
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/collections", tags=["collections"], responses=RESPONSES)


class CollectionSettings(BaseModel):
    """How its documents are prepared and found; what is left out is as the settings say."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="The model of its embeddings.")
    chunk_size: int | None = Field(None, description="Characters of a chunk, at most.")
    chunk_overlap: int | None = Field(None, description="Characters that a chunk shares with the one before.")
    ocr_language: str | None = Field(None, description="The language of its scans.")
    search_language: str | None = Field(None, description="Whose word endings search ignores.")
    index: Literal["postgres", "qdrant"] | None = Field(None, description="Where its vectors are searched.")


class NewCollection(CollectionSettings):
    """A collection to make."""

    name: str


class CollectionChange(CollectionSettings):
    """What shall be different; settings count for documents that are prepared from now on."""

    name: str | None = Field(None, description="A new name.")


class CollectionShown(BaseModel):
    """A collection."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    model: str
    chunk_size: int
    chunk_overlap: int
    ocr_language: str
    search_language: str
    index: str = Field(description="Where its vectors are searched: postgres or qdrant.")
    next_index: str | None = Field(description="The index that is being built beside it; null when none is.")
    reindexed: int | None = Field(description="Chunks that are in the next index.")
    to_reindex: int | None = Field(description="Chunks in all, while there is a next index.")
    next_model: str | None = Field(description="The model that it is becoming, beside the other; null when it is not.")
    reembedded: int | None = Field(description="Chunks that have vectors of the next model.")
    to_reembed: int | None = Field(description="Chunks in all, while there is a next model.")
    trouble: str | None = Field(description="Why it does not become what it should, if it does not.")
    created_at: datetime
    documents: int = Field(description="Documents that search sees.")
    chunks: int = Field(description="Chunks that search sees.")


class CollectionCounted(CollectionShown):
    """A collection and how its documents are."""

    statuses: dict[str, int] = Field(description="How many documents are queued, processing, ready, failed, deleted.")


@routes.post("", status_code=201)
async def create_collection(caller: Writes, wish: NewCollection, response: Response) -> CollectionShown:
    """Make a collection; 409 if there is one of this name."""
    caller.needs_all_collections("make another one")
    made = await documents.create_collection(
        caller.app, wish.name, tenant=caller.tenant, **wish.model_dump(exclude={"name"})
    )
    caller.product.announcer.tell()
    response.headers["Location"] = f"/api/collections/{quote(made.name, safe='')}"
    return CollectionShown.model_validate(made)


@routes.get("")
async def list_collections(
    caller: Reads,
    after: Annotated[str, Query(max_length=1000, description="The `next` of the page before.")] = "",
    limit: Limit = 100,
) -> Page[CollectionShown, str]:
    """All collections, by name."""
    if caller.principal.collections is None:
        found = await documents.list_collections(caller.app, after=after, most=limit + 1, tenant=caller.tenant)
    else:  # before the page is cut: its end must not be the name of one that the key does not see
        seen = sorted(await caller.collections(), key=lambda each: each.name)
        found = [each for each in seen if each.name > after][: limit + 1]
    return cut([CollectionShown.model_validate(each) for each in found], limit, lambda each: each.name)


@routes.get("/{collection}")
async def show_collection(caller: Reads, collection: CollectionName) -> CollectionCounted:
    """One collection, with its documents counted by status."""
    found = await documents.find_collection(caller.app, collection, tenant=caller.tenant)
    statuses = await documents.counts(caller.app, collection=collection, tenant=caller.tenant)
    shown = CollectionShown.model_validate(found)
    return CollectionCounted(**shown.model_dump(), statuses=statuses)


@routes.patch("/{collection}")
async def change_collection(caller: Admins, collection: CollectionName, wish: CollectionChange) -> CollectionShown:
    """Rename it, or change its settings."""
    settings = wish.model_dump(exclude={"name"}, exclude_none=True)
    changed = await documents.change_collection(
        caller.app, collection, new_name=wish.name, tenant=caller.tenant, **settings
    )
    caller.product.announcer.tell()
    return CollectionShown.model_validate(changed)


@routes.delete("/{collection}", status_code=204)
async def delete_collection(caller: Admins, collection: CollectionName) -> None:
    """Delete it with all of its documents."""
    await documents.delete_collection(caller.app, collection, tenant=caller.tenant)
    caller.product.announcer.tell()
