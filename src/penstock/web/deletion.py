"""Deleting by a filter, restoring, receipts. Deleting one document is in documents.py."""

from datetime import datetime
from typing import Any, Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from penstock import documents
from penstock.errors import NotFound
from penstock.web.caller import Reads, Writes
from penstock.web.documents import DocumentShown, State
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.parameters import DocumentId, in_utc
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api", tags=["deletion"], responses=RESPONSES)


class Filter(BaseModel):
    """Which documents of a collection are meant: those for which all conditions hold."""

    model_config = ConfigDict(extra="forbid")

    collection: str
    status: State | None = None
    metadata: dict[str, Any] | None = Field(None, description="Only documents whose metadata contain this.")
    media_types: list[str] = Field(default=[], max_length=100)
    since: datetime | None = Field(None, description="Only documents that came at this time or later.")
    until: datetime | None = Field(None, description="Only documents that came before this time.")
    name_glob: str | None = Field(
        None, max_length=1024, description="Only names like this: * is any text, ? any one character."
    )
    all: bool = Field(False, description="Without any condition, this must be said.")
    limit: int = Field(1000, ge=1, le=1000, description="Documents that are deleted at once; ask again for the rest.")
    reason: str = Field("deleted by a filter", max_length=1000, description="For the receipts.")


class DeletedShown(BaseModel):
    """What a filter has deleted."""

    deleted: int = Field(description="Documents, with those that were inside of them.")
    more: bool = Field(description="There are others that match.")


class ReceiptShown(BaseModel):
    """What was removed of a document, and that somebody looked afterwards."""

    document: int
    collection: str
    name: str
    parent: int | None
    contents: list[dict[str, Any]] = Field(description="Number, SHA-256 and size of each version.")
    deleted_by: str
    reason: str
    deleted_at: datetime
    removed_at: datetime
    removed: dict[str, Any] = Field(description="How many of what; shared: blobs that others use, and that stay.")
    verified_at: datetime | None
    verified: dict[str, Any] | None = Field(description="What was counted again afterwards, and how.")

    @classmethod
    def of(cls, receipt: documents.Receipt) -> Self:
        return cls.model_validate(receipt.answer())


@routes.post("/documents/delete", status_code=202)
async def delete_documents(caller: Writes, wanted: Filter) -> DeletedShown:
    """Delete the documents of a collection that match, with what is inside of them."""
    found = await documents.find_collection(caller.app, wanted.collection, tenant=caller.tenant)
    if not caller.principal.sees(found.id):
        raise NotFound(f"There is no collection {wanted.collection}: see the list for those that there are.")
    deleted = await documents.delete_matching(
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
        tenant=caller.tenant,
    )
    caller.product.announcer.tell()
    return DeletedShown(deleted=deleted.count, more=deleted.more)


@routes.post("/documents/{id}/restore", status_code=202)
async def restore_document(caller: Writes, id: DocumentId) -> DocumentShown:  # noqa: A002
    """Bring back a deleted document and what was deleted with it, while documents.restore_within lasts."""
    restored = await documents.restore_document(caller.app, id, tenant=caller.tenant)
    caller.product.announcer.tell()
    return DocumentShown.of(restored)


@routes.get("/documents/{id}/receipt")
async def show_receipt(caller: Reads, id: DocumentId) -> ReceiptShown:  # noqa: A002
    """What was removed of a deleted document."""
    return ReceiptShown.of(await documents.show_receipt(caller.app, id, tenant=caller.tenant))


@routes.get("/receipts")
async def list_receipts(caller: Reads, after: AfterNumber = 0, limit: Limit = 100) -> Page[ReceiptShown, int]:
    """Receipts by the numbers of their documents."""
    caller.needs_all_collections("list receipts")
    found = await documents.list_receipts(caller.app, after=after, most=limit + 1, tenant=caller.tenant)
    return cut([ReceiptShown.of(each) for each in found], limit, lambda each: each.document)
