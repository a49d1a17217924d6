"""`/api/packets`: documents that belong together, as the files of a form or as a list of where they are.

A form's files are stored as they come, and the packet is there with the answer. A list is a message of the inbox: its documents
are fetched by a job, and the number in the answer is the packet's from the beginning.
"""

import secrets
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock import documents
from penstock.documents import Document, Message, Upload, find_collection
from penstock.documents.packet import FROM_API, Sourced, api_settings
from penstock.documents.packets import ShownPacket, WaitingPacket, list_packets, show_packets
from penstock.documents.wish import make_wish
from penstock.engine.explain import explain
from penstock.errors import BadRequest, BadValue, BodyTooLarge, NotFound
from penstock.web.bodies import check_head, pieces
from penstock.web.caller import Caller, Reads, Writes
from penstock.web.documents import Why
from penstock.web.forms import Form
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.parameters import PacketId, decode_metadata
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/packets", tags=["packets"], responses=RESPONSES)

LIST_MAX = 16 * 2**20  # bytes of a list of documents: some may be in it


class Wanted(BaseModel):
    """A document of a packet, by exactly one of the three."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("", max_length=1024)
    url: str | None = Field(None, max_length=8192, description="Where to fetch it from.")
    content: str | None = Field(None, description="Its bytes, as base64.")


class PacketWish(BaseModel):
    """A packet as a list."""

    model_config = ConfigDict(extra="forbid")

    collection: str
    name: str = Field(max_length=1024)
    documents: list[Wanted] = Field(min_length=1)
    metadata: dict[str, Any] = {}
    replace: bool = Field(False, description="Make a new version if there is a packet of this name.")
    require_all: bool | None = Field(None, description="Fail rather than have a gap.")
    message_id: str | None = Field(None, max_length=200, description="The same one again is the same packet.")


class PacketAccepted(BaseModel):
    """A packet that will be prepared."""

    id: int
    collection: str
    name: str
    status: str
    created: bool
    unchanged: bool = False
    message: str


class PacketDocumentShown(BaseModel):
    """A document of a packet."""

    model_config = ConfigDict(from_attributes=True)

    place: int = Field(description="From 0 on.")
    name: str
    document: int | None = Field(description="Its number; null: its bytes could not be had.")
    status: str
    media_type: str | None
    first_page: int | None = Field(description="In the consolidated PDF; null: it is not in it.")
    pages: int
    gaps: list[dict[str, Any]]
    reason: str = Field(description="Why it is not in the consolidated PDF.")


class PartShown(BaseModel):
    """Pages that belong together: the cover sheet, part A, part B, the rest."""

    model_config = ConfigDict(from_attributes=True)

    label: str
    first_page: int
    last_page: int
    confidence: float = Field(description="From 0 to 1.")


class PacketShown(BaseModel):
    """A packet, and how far it is. Its bytes are the consolidated PDF: `/api/documents/{id}/content`."""

    id: int
    collection: str
    name: str
    status: str
    step: str | None = None
    progress: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    version: int
    live_version: int | None = None
    pages: int | None = None
    gaps: list[dict[str, Any]] = []
    metadata: dict[str, Any] = {}
    require_all: bool = False
    merged: bool = Field(False, description="Whether there is a consolidated PDF.")
    source: str | None = Field(None, description="Where it came from by itself.")
    message_id: str | None = None
    documents: list[PacketDocumentShown] = []
    parts: list[PartShown] = []
    created_at: datetime

    @classmethod
    def of(cls, document: Document, packet: ShownPacket) -> "PacketShown":
        known = document.answer()
        shared = {name: known[name] for name in cls.model_fields if name in known}
        return cls(
            **{
                **shared,
                "require_all": packet.require_all,
                "merged": packet.merged,
                "source": packet.source,
                "message_id": packet.message_id,
                "documents": [PacketDocumentShown.model_validate(each) for each in packet.documents],
                "parts": [PartShown.model_validate(each) for each in packet.parts],
            }
        )

    @classmethod
    def of_message(cls, message: WaitingPacket) -> "PacketShown":
        """One that is still a message."""
        return cls(
            id=message.id,
            collection=message.collection,
            name=message.name,
            status=message.status,
            error=message.error,
            version=1,
            created_at=message.received_at,
        )


def _list_schema() -> dict[str, Any]:
    """Of a list, whole: what is only described, and not declared, has no place among the document's own schemas."""
    schema = PacketWish.model_json_schema()
    schema["properties"]["documents"]["items"] = schema.pop("$defs")["Wanted"]
    return schema


FORM_OR_LIST = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            },
            "application/json": {"schema": _list_schema()},
        },
    }
}


@routes.post("", status_code=202, response_model=PacketAccepted, openapi_extra=FORM_OR_LIST)
async def post_packet(  # noqa: PLR0913  a parameter of the request is an argument
    caller: Writes,
    request: Request,
    *,
    collection: Annotated[str, Query(description="Of a form: the collection.")] = "",
    name: Annotated[str, Query(max_length=1024, description="Of a form: the packet's name.")] = "",
    replace: Annotated[bool, Query(description="Of a form: make a new version of a packet of this name.")] = False,
    require_all: Annotated[bool | None, Query(description="Of a form: fail rather than have a gap.")] = None,
    metadata: Annotated[str | None, Query(description="Of a form: a JSON object.")] = None,
    content_type: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Accept a packet: a form with its files in their order, or a JSON list of URLs and contents."""
    check_head(request)
    if content_type.partition(";")[0].strip().lower() == "application/json":
        accepted = await _take_list(caller, await _read_list(request))
    else:
        upload = Upload(
            await _visible(caller, collection),
            name,
            _nothing(),
            uploaded_by=caller.uploader(""),
            metadata=decode_metadata(metadata, "metadata"),
            replace=replace,
        )
        accepted = await _take_form(caller, request, content_type, upload, require_all)
    caller.product.announcer.tell()
    return JSONResponse(accepted.model_dump(mode="json"), 202, {"Location": f"/api/packets/{accepted.id}"})


async def _visible(caller: Caller, collection: str) -> str:
    found = await find_collection(caller.app, collection, tenant=caller.tenant)
    if not caller.principal.sees(found.id):
        raise NotFound(f"There is no collection {found.name}: see the list for those that there are.")
    return found.name


async def _take_form(
    caller: Caller, request: Request, content_type: str, upload: Upload, require_all: bool | None
) -> PacketAccepted:
    collection = await find_collection(caller.app, upload.collection, tenant=caller.tenant)
    wish = make_wish(upload, caller.tenant, collection.id, served=True)
    sourced: list[Sourced] = []
    try:
        await _store_files(caller, Form(content_type, pieces(request, sys.maxsize)), sourced)
    except BaseException:
        for each in sourced:
            if each.stored is not None:
                await caller.product.store.remove(each.stored.key)
        raise
    made = await caller.product.packets.accept(wish, sourced, require_all=require_all)
    return PacketAccepted.model_validate(made.answer(), extra="ignore")


async def _store_files(caller: Caller, form: Form, sourced: list[Sourced]) -> None:
    most, limits = caller.app.settings.packet.documents, caller.app.settings.limits
    async for part in form.parts():
        if part.file_name:
            if len(sourced) == most:
                raise BadValue(f"The packet has more than {most:,} documents (packet.documents).")
            stored = await caller.product.store.write(form.content(), most=limits.bytes)
            sourced.append(Sourced(part.file_name, stored))
    if not sourced:
        raise BadRequest("There is no file in the form: a file is a part with a file name.")


async def _read_list(request: Request) -> PacketWish:
    body = bytearray()
    async for piece in pieces(request, LIST_MAX):
        body += piece
        if len(body) > LIST_MAX:
            raise BodyTooLarge(f"The list has more than {LIST_MAX:,} bytes: send the files as a form.")
    try:
        return PacketWish.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise BadValue(f"The list of documents cannot be used: {where}: {first['msg']}.") from None


async def _take_list(caller: Caller, wish: PacketWish) -> PacketAccepted:
    collection = await _visible(caller, wish.collection)
    if len(wish.documents) > (most := caller.app.settings.packet.documents):
        raise BadValue(f"The packet has {len(wish.documents):,} documents, and packet.documents allows {most:,}.")
    payload = {
        **wish.model_dump(exclude={"message_id"}, exclude_none=True),
        "collection": collection,
        "uploaded_by": caller.uploader(""),
    }
    number = f"{caller.tenant}/{collection}/{wish.message_id or secrets.token_hex(16)}"
    settings = api_settings(payload, caller.tenant)
    received = await caller.product.inbox.receive(FROM_API, [Message(number, payload)], settings=settings)
    found, _ = await caller.product.inbox.find(FROM_API, number)
    return PacketAccepted(
        id=found,
        collection=collection,
        name=wish.name,
        status="queued",
        created=bool(received.new or received.versions),
        unchanged=bool(received.repeats),
        message="accepted; its documents are fetched next" if not received.repeats else "unchanged: it came before",
    )


@routes.get("")
async def list_all(
    caller: Reads,
    *,
    collection: Annotated[str | None, Query(description="Only of this collection.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[PacketShown, int]:
    """Packets by number."""
    app = caller.app
    chosen = None
    if collection is not None:
        await _visible(caller, collection)
        chosen = (await find_collection(app, collection, tenant=caller.tenant)).id
    ids = await app.database.pool.repeat(
        lambda session: list_packets(session, collection=chosen, after=after, most=limit + 1, tenant=caller.tenant)
    )
    found = await documents.show_documents(app, ids, tenant=caller.tenant)
    packets = await app.database.pool.repeat(lambda session: show_packets(session, ids, tenant=caller.tenant))
    shown = [
        PacketShown.of(each, packets[each.id])
        for each in found
        if each.id in packets and caller.principal.sees(each.collection_id)
    ]
    return cut(shown, limit, lambda each: each.id)


@routes.get("/{id}")
async def show_packet(caller: Reads, id: PacketId) -> PacketShown:  # noqa: A002
    """One packet, with its documents and parts."""
    app = caller.app
    if isinstance(id, WaitingPacket):
        return PacketShown.of_message(id)
    document = await documents.show_document(app, id, tenant=caller.tenant)
    packets = await app.database.pool.repeat(lambda session: show_packets(session, [id], tenant=caller.tenant))
    if id not in packets:
        raise NotFound(f"There is no packet {id}.")
    return PacketShown.of(document, packets[id])


@routes.get("/{id}/why")
async def explain_packet(caller: Reads, id: PacketId) -> Why:  # noqa: A002
    """Why a packet is where it is."""
    if isinstance(id, WaitingPacket):
        job = id.job
        told = await caller.app.database.pool.repeat(lambda session: explain(session, job))
        return Why(
            sentence=f"Packet {id.id} ({id.name}) is still a message: {told.sentence}",
            state=id.status,
            because=told.because,
            evidence=told.evidence if caller.runs_fleet else {},  # it names workers and what they do for others
        )
    found = await documents.explain_document(caller.app, id, tenant=caller.tenant)
    if not caller.runs_fleet:
        found.evidence.pop("job", None)
    return Why.model_validate(found)


async def _nothing() -> AsyncIterator[bytes]:
    yield b""
