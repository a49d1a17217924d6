"""`/api/documents`: list, show, read, explain, change, delete, restore; `/api/receipts`. Uploads are in uploads.py."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from penstock import documents
from penstock.errors import NotFound
from penstock.web.dependencies import (
    AfterNumber,
    Caller,
    CollectionName,
    DocumentId,
    Limit,
    Page,
    Reads,
    RemoveNow,
    Why,
    Writes,
    cut,
    in_utc,
)
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api/documents", tags=["documents"], responses=RESPONSES)
deletion_routes = APIRouter(prefix="/api", tags=["deletion"], responses=RESPONSES)
named_routes = APIRouter(prefix="/api/collections/{collection}/documents", tags=["documents"], responses=RESPONSES)


@routes.get("")
async def list_documents(
    caller: Reads,
    *,
    collection: Annotated[str | None, Query(description="Only of this collection.")] = None,
    status: Annotated[
        documents.DocumentStatus | None, Query(description="Only in this status; deleted ones are listed only so.")
    ] = None,
    parent: Annotated[
        int | None, Query(ge=1, lt=2**63, description="Only attachments and members of this document.")
    ] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[documents.Document, int]:
    """Documents by id."""
    found = await _list(caller, collection, status=status, parent=parent, after=after, most=limit + 1)
    return cut(found, limit, lambda each: each.id)


async def _list(caller: Caller, collection: str | None, *, most: int, **wanted: Any) -> list[documents.Document]:
    """Of one collection or of all; with a key for some, one page of each of these is as good as one of all."""
    names: list[str | None] = [collection]
    if caller.principal.collections is not None:
        names = [each.name for each in await caller.collections() if collection in {None, each.name}]
        if collection is not None and not names:
            raise documents.no_such_collection(collection)
    found: list[documents.Document] = []
    for name in names:
        found += await documents.list_documents(caller.app, collection=name, most=most, tenant=caller.tenant, **wanted)
    return sorted(found, key=lambda each: each.id)[:most]


@routes.get("/{id}")
async def show_document(caller: Reads, id: DocumentId) -> documents.Document:  # noqa: A002
    """One document."""
    return await documents.show_document(caller.app, id, tenant=caller.tenant)


@named_routes.get("/{name:path}")
async def find_document(caller: Reads, collection: CollectionName, name: str) -> documents.Document:
    """One document, by its name."""
    name = documents.check_document_name(name)
    found = await documents.find_document(caller.app, f"{collection}/{name}", tenant=caller.tenant)
    if (found.collection, found.name) != (collection, name):  # a name may have slashes itself
        raise NotFound(f"Document {name} does not exist in collection {collection}.")
    return found


@routes.get("/{id}/text", response_class=StreamingResponse, responses={200: {"content": {"text/plain": {}}}})
async def read_text(caller: Reads, id: DocumentId) -> StreamingResponse:  # noqa: A002
    """The whole text of the version that search sees."""
    rest = documents.read_text(caller.app, id, tenant=caller.tenant)
    first = await anext(rest, "")  # before the answer begins: later an error could not be reported any more

    async def pieces() -> AsyncIterator[str]:
        yield first
        async for piece in rest:
            yield piece

    return StreamingResponse(pieces(), media_type="text/plain; charset=utf-8")


@routes.get("/{id}/pages")
async def list_pages(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[documents.PageText, int]:
    """The text page by page."""
    found = await documents.list_pages(caller.app, id, after=after, most=limit + 1, tenant=caller.tenant)
    return cut(found, limit, lambda each: each.number)


@routes.get("/{id}/chunks")
async def list_chunks(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    after: AfterNumber = -1,
    limit: Limit = 100,
) -> Page[documents.ChunkText, int]:
    """The chunks that search finds, in order."""
    found = await documents.list_chunks(caller.app, id, after=after, most=limit + 1, tenant=caller.tenant)
    return cut(found, limit, lambda each: each.number)


@routes.get("/{id}/versions")
async def list_versions(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[documents.Version, int]:
    """All versions, oldest first. Their bytes are at `…/content?version=N`."""
    found = await documents.list_versions(caller.app, id, after=after, most=limit + 1, tenant=caller.tenant)
    return cut(found, limit, lambda each: each.number)


@routes.get("/{id}/why")
async def explain_document(caller: Reads, id: DocumentId) -> Why:  # noqa: A002
    """Explain its status: one sentence, and the evidence."""
    return caller.answer(await documents.explain_document(caller.app, id, tenant=caller.tenant))


@routes.get("/{id}/history")
async def show_history(caller: Reads, id: DocumentId) -> list[documents.Event]:  # noqa: A002
    """Its events, oldest first."""
    return await documents.list_events(caller.app, id, tenant=caller.tenant)


@routes.post("/{id}/retry", status_code=202)
async def retry_document(caller: Writes, id: DocumentId) -> documents.Document:  # noqa: A002
    """Retry a failed document."""
    changed = await documents.retry_document(caller.app, id, tenant=caller.tenant)
    caller.product.notifier.notify()
    return changed


@routes.post("/{id}/cancel", status_code=202)
async def cancel_document(caller: Writes, id: DocumentId) -> documents.Document:  # noqa: A002
    """Stop preparing a document; it becomes failed, as cancelled."""
    changed = await documents.cancel_document(caller.app, id, tenant=caller.tenant)
    caller.product.notifier.notify()
    return changed


@routes.post("/{id}/dismiss")
async def dismiss_document(caller: Writes, id: DocumentId) -> documents.Document:  # noqa: A002
    """Take a document that could not be read off the list of unread documents; it stays failed."""
    return await documents.dismiss_document(caller.app, id, by=caller.principal.name, tenant=caller.tenant)


@routes.delete("/{id}", status_code=202)
async def delete_document(
    caller: Writes,
    id: DocumentId,  # noqa: A002
    now: RemoveNow = False,
) -> documents.Document:
    """Take it out of search and lists at once, with its members; they can be restored until `restorable_until`."""
    if now:
        caller.needs_scope("admin")
    changed = await documents.delete_document(caller.app, id, by=caller.principal.name, now=now, tenant=caller.tenant)
    caller.product.notifier.notify()
    return changed


# -- deletion -------------------------------------------------------------------------------------------------------


class DeletionFilter(BaseModel):
    """Documents of a collection that meet all conditions."""

    model_config = ConfigDict(extra="forbid")

    collection: str
    status: documents.DocumentStatus | None = None
    metadata: dict[str, Any] | None = Field(None, description="Only documents whose metadata contain this.")
    media_types: list[str] = Field(default=[], max_length=100)
    since: datetime | None = Field(None, description="Only documents that were uploaded at this time or later.")
    until: datetime | None = Field(None, description="Only documents that were uploaded before this time.")
    name_glob: str | None = Field(
        None, max_length=1024, description="Only names like this: * is any text, ? any one character."
    )
    all: bool = Field(False, description="All documents of the collection; required without a condition.")
    limit: int = Field(1000, ge=1, le=1000, description="Documents that are deleted at once; ask again for the rest.")
    reason: str = Field("deleted by a filter", max_length=1000, description="For the receipts.")
    now: bool = Field(
        False, description="Remove them at once, without a chance to restore them; needs the admin scope."
    )


@deletion_routes.post("/documents/delete", status_code=202)
async def delete_documents(caller: Writes, wanted: DeletionFilter) -> documents.BulkDeletion:
    """Delete the documents of a collection that match, with their members."""
    if wanted.now:
        caller.needs_scope("admin")
    await caller.find_collection(wanted.collection)
    done = await documents.delete_matching(
        caller.app,
        documents.Matching(
            wanted.collection,
            status=wanted.status,
            metadata=wanted.metadata,
            media_types=wanted.media_types,
            since=in_utc(wanted.since),
            until=in_utc(wanted.until),
            name_glob=wanted.name_glob,
            every=wanted.all,
        ),
        most=wanted.limit,
        by=caller.principal.name,
        reason=wanted.reason,
        now=wanted.now,
        tenant=caller.tenant,
    )
    caller.product.notifier.notify()
    return done


@deletion_routes.post("/documents/{id}/restore", status_code=202)
async def restore_document(caller: Writes, id: DocumentId) -> documents.Document:  # noqa: A002
    """Bring back a deleted document and what was deleted with it; possible until `restorable_until`."""
    restored = await documents.restore_document(caller.app, id, tenant=caller.tenant)
    caller.product.notifier.notify()
    return restored


@deletion_routes.get("/documents/{id}/receipt")
async def show_receipt(caller: Reads, id: DocumentId) -> documents.Receipt:  # noqa: A002
    """The receipt of a deleted document: what was removed."""
    return await documents.show_receipt(caller.app, id, tenant=caller.tenant)


@deletion_routes.get("/receipts")
async def list_receipts(caller: Reads, after: AfterNumber = 0, limit: Limit = 100) -> Page[documents.Receipt, int]:
    """Receipts by the ids of their documents."""
    caller.needs_all_collections("list receipts")
    found = await documents.list_receipts(caller.app, after=after, most=limit + 1, tenant=caller.tenant)
    return cut(found, limit, lambda each: each.document)
