"""`/api/collections`: create, list, show with counts of documents, rename and change, delete, restore."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock import documents
from penstock.documents import Collection, CollectionDeletion
from penstock.web.dependencies import Admins, CollectionName, Limit, Page, Reads, RemoveNow, Writes, cut
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api/collections", tags=["collections"], responses=RESPONSES)


class CollectionSettings(BaseModel):
    """Settings of preparation and search; a field that is left out follows the server's settings."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="The model of its embeddings.")
    chunk_size: int | None = Field(None, description="Characters of a chunk, at most.")
    chunk_overlap: int | None = Field(None, description="Characters that a chunk shares with the one before.")
    ocr_language: str | None = Field(None, description="The language of its scans.")
    search_language: str | None = Field(None, description="The language whose word endings search ignores.")
    index: Literal["postgres", "qdrant"] | None = Field(None, description="Where its vectors are searched.")


class NewCollection(CollectionSettings):
    """A collection to create."""

    name: str


class CollectionChange(CollectionSettings):
    """Changes to a collection; settings apply to documents that are prepared from now on."""

    name: str | None = Field(None, description="A new name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCollection(Collection):
    """A collection, with its documents counted by status."""

    statuses: Annotated[
        dict[str, int], Field(description="Documents by status: queued, processing, ready, failed, deleted.")
    ]


@routes.post("", status_code=201)
async def create_collection(caller: Writes, body: NewCollection, response: Response) -> Collection:
    """Create a collection; 409 if the name is taken."""
    caller.needs_all_collections("create another one")
    made = await documents.create_collection(
        caller.app, body.name, tenant=caller.tenant, **body.model_dump(exclude={"name"})
    )
    caller.product.notifier.notify()
    response.headers["Location"] = f"/api/collections/{quote(made.name, safe='')}"
    return made


@routes.get("")
async def list_collections(
    caller: Reads,
    after: Annotated[str, Query(max_length=1000, description="The `next` of the page before.")] = "",
    limit: Limit = 100,
) -> Page[Collection, str]:
    """All collections, by name."""
    if caller.principal.collections is None:
        found = await documents.list_collections(caller.app, after=after, most=limit + 1, tenant=caller.tenant)
    else:  # before the page is cut: its end must not be the name of one that the key does not see
        seen = sorted(await caller.collections(), key=lambda each: each.name)
        found = [each for each in seen if each.name > after][: limit + 1]
    return cut(found, limit, lambda each: each.name)


@routes.get("/{collection}")
async def show_collection(caller: Reads, collection: CollectionName) -> CountedCollection:
    """One collection, with its documents counted by status."""
    found = await caller.find_collection(collection)
    statuses = await documents.count_documents(caller.app, collection=collection, tenant=caller.tenant)
    return CountedCollection(**asdict(found), statuses=statuses)


@routes.patch("/{collection}")
async def change_collection(caller: Admins, collection: CollectionName, body: CollectionChange) -> Collection:
    """Rename it, or change its settings."""
    settings = body.model_dump(exclude={"name"}, exclude_none=True)
    changed = await documents.change_collection(
        caller.app, collection, new_name=body.name, tenant=caller.tenant, **settings
    )
    caller.product.notifier.notify()
    return changed


@routes.delete("/{collection}", status_code=202)
async def delete_collection(caller: Admins, collection: CollectionName, now: RemoveNow = False) -> CollectionDeletion:
    """Delete it with all of its documents; it can be restored until `restorable_until`."""
    deleted = await documents.delete_collection(
        caller.app, collection, by=caller.principal.name, now=now, tenant=caller.tenant
    )
    caller.product.notifier.notify()
    return deleted


@routes.post("/{collection}/restore", status_code=202)
async def restore_collection(
    caller: Admins, collection: Annotated[str, Path(description="The collection's name.")]
) -> Collection:
    """Bring back a deleted collection and the documents that were deleted with it; possible until `restorable_until`."""
    caller.needs_all_collections("restore one")
    restored = await documents.restore_collection(caller.app, collection, tenant=caller.tenant)
    caller.product.notifier.notify()
    return restored
