"""`/api/packets`: documents that are merged into one PDF, sent as the files of a form or as a list of URLs.

A form's files are stored as they come, and the packet is there with the answer. A list is a message of the inbox: its documents
are fetched by a job, and the number in the answer is the packet's from the beginning.
"""

import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock import documents
from penstock.documents import (
    FROM_API,
    Document,
    PacketFile,
    ShownPacket,
    SourceMessage,
    Upload,
    WaitingPacket,
    api_settings,
    list_packets,
    show_packets,
)
from penstock.documents.ingest import CheckedUpload, check_upload
from penstock.engine.inspect import explain_job, joined
from penstock.errors import BadRequest, BadValue, NotFound
from penstock.web.dependencies import (
    AfterNumber,
    Caller,
    Limit,
    PacketId,
    Page,
    Reads,
    Why,
    Writes,
    cut,
    decode_metadata,
    read_model,
)
from penstock.web.middleware.errors import RESPONSES
from penstock.web.middleware.request_body import Form, check_head, pieces

routes = APIRouter(prefix="/api/packets", tags=["packets"], responses=RESPONSES)

LIST_MAX = 16 * 2**20  # bytes of a list of documents: some may be in it


class NewPacketDocument(BaseModel):
    """A document of a packet, by exactly one of the three."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("", max_length=1024)
    url: str | None = Field(None, max_length=8192, description="Where to fetch it from.")
    content: str | None = Field(None, description="Its bytes, as base64.")


class NewPacket(BaseModel):
    """A packet as a list."""

    model_config = ConfigDict(extra="forbid")

    collection: str
    name: str = Field(max_length=1024)
    documents: list[NewPacketDocument] = Field(min_length=1)
    metadata: dict[str, Any] = {}
    replace: bool = Field(False, description="Add a version if the name is taken.")
    require_all: bool | None = Field(None, description="Fail rather than leave out a document.")
    message_id: str | None = Field(None, max_length=200, description="A message with the same id is the same packet.")


class AcceptedPacket(BaseModel):
    """A packet that will be prepared."""

    id: int
    collection: str
    name: str
    status: str
    created: bool
    unchanged: bool = False
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDetails(ShownPacket):
    """A packet and its progress. Its bytes are the consolidated PDF: `/api/documents/{id}/content`."""

    collection: str
    name: str
    status: str
    step: str | None = None
    progress: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    version: int
    live_version: int | None = None
    pages: int | None = None
    gaps: Sequence[Mapping[str, Any]] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime

    @classmethod
    def of(cls, document: Document, packet: ShownPacket) -> "PacketDetails":
        of_packet = {each.name: getattr(packet, each.name) for each in fields(packet)}
        of_document = {each.name: getattr(document, each.name) for each in fields(cls) if each.name not in of_packet}
        return cls(**of_packet, **of_document)

    @classmethod
    def of_message(cls, message: WaitingPacket) -> "PacketDetails":
        """A packet that is still a message."""
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
    schema = NewPacket.model_json_schema()
    schema["properties"]["documents"]["items"] = schema.pop("$defs")["NewPacketDocument"]
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


@routes.post("", status_code=202, response_model=AcceptedPacket, openapi_extra=FORM_OR_LIST)
async def post_packet(  # noqa: PLR0913  a parameter of the request is an argument
    caller: Writes,
    request: Request,
    *,
    collection: Annotated[str, Query(description="Of a form: the collection.")] = "",
    name: Annotated[str, Query(max_length=1024, description="Of a form: the packet's name.")] = "",
    replace: Annotated[bool, Query(description="Of a form: add a version if the name is taken.")] = False,
    require_all: Annotated[bool | None, Query(description="Of a form: fail rather than leave out a document.")] = None,
    metadata: Annotated[str | None, Query(description="Of a form: a JSON object.")] = None,
    content_type: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """Accept a packet: a form with its files in their order, or a JSON list of URLs and contents."""
    check_head(request)
    if content_type.partition(";")[0].strip().lower() == "application/json":
        accepted = await _take_list(caller, await read_model(request, NewPacket, LIST_MAX, "The list of documents"))
    else:
        into = await caller.find_collection(collection)
        upload = Upload(
            into.name,
            name,
            _nothing(),
            uploaded_by=caller.uploader(""),
            metadata=decode_metadata(metadata, "metadata"),
            replace=replace,
        )
        accepted = await _take_form(
            caller, request, check_upload(upload, caller.tenant, into.id, served=True), require_all
        )
    caller.product.notifier.notify()
    return JSONResponse(accepted.model_dump(mode="json"), 202, {"Location": f"/api/packets/{accepted.id}"})


async def _take_form(
    caller: Caller, request: Request, upload: CheckedUpload, require_all: bool | None
) -> AcceptedPacket:
    form = Form(request.headers.get("content-type", ""), pieces(request, sys.maxsize))
    sourced: list[PacketFile] = []
    try:
        await _store_files(caller, form, sourced)
    except BaseException:
        for each in sourced:
            if each.stored is not None:
                await caller.product.store.remove(each.stored.key)
        raise
    made = await caller.product.packets.accept(upload, sourced, require_all=require_all)
    return AcceptedPacket.model_validate(made.answer(), extra="ignore")


async def _store_files(caller: Caller, form: Form, sourced: list[PacketFile]) -> None:
    most, limits = caller.app.settings.packet.documents, caller.app.settings.limits
    async for part in form.parts():
        if part.file_name:
            if len(sourced) == most:
                raise BadValue(f"The packet has more than {most:,} documents (packet.documents).")
            stored = await caller.product.store.write(form.content(), most=limits.bytes)
            sourced.append(PacketFile(part.file_name, stored))
    if not sourced:
        raise BadRequest("The form has no file: send a part with a file name.")


async def _take_list(caller: Caller, body: NewPacket) -> AcceptedPacket:
    collection = (await caller.find_collection(body.collection)).name
    if len(body.documents) > (most := caller.app.settings.packet.documents):
        raise BadValue(f"The packet has {len(body.documents):,} documents, and packet.documents allows {most:,}.")
    payload = {
        **body.model_dump(exclude={"message_id"}, exclude_none=True),
        "collection": collection,
        "uploaded_by": caller.uploader(""),
    }
    number = f"{caller.tenant}/{collection}/{body.message_id or secrets.token_hex(16)}"
    settings = api_settings(payload, caller.tenant)
    received = await caller.product.inbox.receive(FROM_API, [SourceMessage(number, payload)], settings=settings)
    found, _ = await caller.product.inbox.find(FROM_API, number)
    return AcceptedPacket(
        id=found,
        collection=collection,
        name=body.name,
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
) -> Page[PacketDetails, int]:
    """Packets by id."""
    app = caller.app
    chosen = None if collection is None else (await caller.find_collection(collection)).id
    ids = await app.database.pool.repeat(
        list_packets, collection=chosen, after=after, most=limit + 1, tenant=caller.tenant
    )
    found = await documents.show_documents(app, ids, tenant=caller.tenant)
    packets = await app.database.pool.repeat(show_packets, ids, tenant=caller.tenant)
    shown = [
        PacketDetails.of(each, packets[each.id])
        for each in found
        if each.id in packets and caller.principal.sees(each.collection_id)
    ]
    return cut(shown, limit, lambda each: each.id)


@routes.get("/{id}")
async def show_packet(caller: Reads, id: PacketId) -> PacketDetails:  # noqa: A002
    """One packet, with its documents and parts."""
    app = caller.app
    if isinstance(id, WaitingPacket):
        return PacketDetails.of_message(id)
    document = await documents.show_document(app, id, tenant=caller.tenant)
    packets = await app.database.pool.repeat(show_packets, [id], tenant=caller.tenant)
    if id not in packets:
        raise NotFound(f"Packet {id} does not exist.")
    return PacketDetails.of(document, packets[id])


@routes.get("/{id}/why")
async def explain_packet(caller: Reads, id: PacketId) -> Why:  # noqa: A002
    """Explain the state of a packet."""
    if isinstance(id, WaitingPacket):
        job = id.job
        told = await caller.app.database.pool.repeat(explain_job, job)
        found = replace(
            told,
            subject=joined(f"Packet {id.id} ({id.name}) is still a message:", told.subject),
            state=id.status,
            evidence=told.evidence if caller.runs_fleet else {},  # all of it is about the job
        )
    else:
        found = await documents.explain_document(caller.app, id, tenant=caller.tenant)
    return caller.answer(found)


async def _nothing() -> AsyncIterator[bytes]:
    yield b""
