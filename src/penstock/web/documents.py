"""`/api/documents`: list, show, read, explain, retry, cancel, delete. How they come in is in uploads.py."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from penstock import documents
from penstock.documents.naming import check_document_name
from penstock.errors import NotFound
from penstock.web.caller import Caller, Reads, Writes
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.parameters import CollectionName, DocumentId
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/documents", tags=["documents"], responses=RESPONSES)
named = APIRouter(prefix="/api/collections/{collection}/documents", tags=["documents"], responses=RESPONSES)

State = Literal["queued", "processing", "ready", "failed", "deleted"]


class Shown(BaseModel):
    """Made from an object of the same fields."""

    model_config = ConfigDict(from_attributes=True)


class DocumentShown(BaseModel):
    """A document, and how far it is. Title, pages, chunks and gaps are those of the version that search sees."""

    id: int
    collection: str
    name: str
    status: State
    step: str | None = Field(description="processing: what is done with it now.")
    progress: dict[str, Any] | None = Field(description="processing: done, total, note.")
    attempt: int | None
    error: dict[str, Any] | None = Field(description="failed: class, message, step.")
    version: int = Field(description="The newest version that was accepted.")
    live_version: int | None = Field(description="The version that search sees.")
    media_type: str | None = Field(description="By its content, not by its name; null until it was read.")
    size: int
    digest: str = Field(description="SHA-256 of its bytes.")
    title: str | None
    pages: int | None
    chunks: int | None
    words: int | None
    gaps: list[dict[str, Any]] = Field(description="What is missing in a ready document, and why.")
    facts: dict[str, Any] = Field(description="Author, dates and the like, as the file says.")
    metadata: dict[str, Any]
    uploaded_by: str
    parent: int | None = Field(description="The mail or archive that it came in.")
    depth: int
    job: int | None
    created_at: datetime
    accepted_at: datetime
    changed_at: datetime
    prepared_at: datetime | None
    deleted_at: datetime | None

    @classmethod
    def of(cls, document: documents.Document) -> Self:
        return cls.model_validate(document.answer())


class PageShown(Shown):
    """The text of a page."""

    number: int
    text: str
    ocr: float | None = Field(description="How sure the OCR was, from 0 to 1; null where it was not needed.")


class ChunkShown(Shown):
    """A part that search finds."""

    number: int = Field(description="From 0 on.")
    page: int | None
    start: int
    stop: int
    heading: str
    text: str


class EventShown(Shown):
    """Something that happened to a document."""

    id: int
    at: datetime
    event: str
    details: dict[str, Any]


class Why(Shown):
    """Why a document is where it is."""

    sentence: str
    state: str
    because: str
    evidence: dict[str, Any]


@routes.get("")
async def list_documents(
    caller: Reads,
    *,
    collection: Annotated[str | None, Query(description="Only of this collection.")] = None,
    status: Annotated[State | None, Query(description="Only in this status; deleted ones are listed only so.")] = None,
    parent: Annotated[int | None, Query(ge=1, lt=2**63, description="Only members of this one.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[DocumentShown, int]:
    """Documents by number."""
    found = await _list(caller, collection, status=status, parent=parent, after=after, most=limit + 1)
    return cut([DocumentShown.of(each) for each in found], limit, lambda each: each.id)


async def _list(caller: Caller, collection: str | None, *, most: int, **wanted: Any) -> list[documents.Document]:
    """Of one collection or of all; with a key for some, one page of each of these is as good as one of all."""
    names: list[str | None] = [collection]
    if caller.principal.collections is not None:
        names = [each.name for each in await caller.collections() if collection in {None, each.name}]
        if collection is not None and not names:
            raise NotFound(f"There is no collection {collection}: see the list for those that there are.")
    found: list[documents.Document] = []
    for name in names:
        found += await documents.list_documents(caller.app, collection=name, most=most, tenant=caller.tenant, **wanted)
    return sorted(found, key=lambda each: each.id)[:most]


@routes.get("/{id}")
async def show_document(caller: Reads, id: DocumentId) -> DocumentShown:  # noqa: A002
    """One document."""
    return DocumentShown.of(await documents.show_document(caller.app, id, tenant=caller.tenant))


@named.get("/{name:path}")
async def find_document(caller: Reads, collection: CollectionName, name: str) -> DocumentShown:
    """One document, by its name."""
    name = check_document_name(name)
    found = await documents.find_document(caller.app, f"{collection}/{name}", tenant=caller.tenant)
    if (found.collection, found.name) != (collection, name):  # a name may have slashes itself
        raise NotFound(f"There is no document {name} in the collection {collection}.")
    return DocumentShown.of(found)


@routes.get("/{id}/text", response_class=StreamingResponse, responses={200: {"content": {"text/plain": {}}}})
async def read_text(caller: Reads, id: DocumentId) -> StreamingResponse:  # noqa: A002
    """The whole text of the version that search sees."""
    rest = documents.read_text(caller.app, id, tenant=caller.tenant)
    first = await anext(rest, "")  # before the answer begins: later an error could not be told any more

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
) -> Page[PageShown, int]:
    """The text page by page."""
    found = await documents.list_pages(caller.app, id, after=after, most=limit + 1, tenant=caller.tenant)
    return cut([PageShown.model_validate(each) for each in found], limit, lambda each: each.number)


@routes.get("/{id}/chunks")
async def list_chunks(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    after: AfterNumber = -1,
    limit: Limit = 100,
) -> Page[ChunkShown, int]:
    """The parts that search finds, in their order."""
    found = await documents.list_chunks(caller.app, id, after=after, most=limit + 1, tenant=caller.tenant)
    return cut([ChunkShown.model_validate(each) for each in found], limit, lambda each: each.number)


class VersionShown(Shown):
    """A version of a document."""

    number: int = Field(description="From 1 on.")
    state: Literal["live", "preparing", "failed", "dead"] = Field(
        description="live: search sees it; dead: nobody will see it again."
    )
    digest: str
    size: int
    accepted_at: datetime
    prepared_at: datetime | None


@routes.get("/{id}/versions")
async def list_versions(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[VersionShown, int]:
    """All versions that there were, oldest first. Their bytes are at `…/content?version=N`."""
    found = await documents.list_versions(caller.app, id, after=after, most=limit + 1, tenant=caller.tenant)
    return cut([VersionShown.model_validate(each.answer()) for each in found], limit, lambda each: each.number)


@routes.get("/{id}/why")
async def explain_document(caller: Reads, id: DocumentId) -> Why:  # noqa: A002
    """Why it is where it is: one sentence, and the evidence."""
    found = await documents.explain_document(caller.app, id, tenant=caller.tenant)
    if not caller.runs_fleet:  # it names workers and what they do for others
        found.evidence.pop("job", None)
    return Why.model_validate(found)


@routes.get("/{id}/history")
async def show_history(caller: Reads, id: DocumentId) -> list[EventShown]:  # noqa: A002
    """What happened to it, the oldest first."""
    return [EventShown.model_validate(each) for each in await documents.history(caller.app, id, tenant=caller.tenant)]


@routes.post("/{id}/retry", status_code=202)
async def retry_document(caller: Writes, id: DocumentId) -> DocumentShown:  # noqa: A002
    """Try a failed document again."""
    changed = await documents.retry_document(caller.app, id, tenant=caller.tenant)
    caller.product.announcer.tell()
    return DocumentShown.of(changed)


@routes.post("/{id}/cancel", status_code=202)
async def cancel_document(caller: Writes, id: DocumentId) -> DocumentShown:  # noqa: A002
    """Stop preparing a document; it is failed then, with that as the reason."""
    changed = await documents.cancel_document(caller.app, id, tenant=caller.tenant)
    caller.product.announcer.tell()
    return DocumentShown.of(changed)


@routes.delete("/{id}", status_code=202)
async def delete_document(caller: Writes, id: DocumentId) -> DocumentShown:  # noqa: A002
    """Take it out of search and lists at once, with its members; the bytes follow later."""
    changed = await documents.delete_document(caller.app, id, by=caller.principal.name, tenant=caller.tenant)
    caller.product.announcer.tell()
    return DocumentShown.of(changed)
