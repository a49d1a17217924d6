"""`…/content`: the bytes of a document, and links to them. `…/pages/{number}/image`: a page as an image.

A download is always an attachment of the detected type (never the uploader's), without sniffing and in a sandbox, so that no
browser runs it. A single range of bytes is served, so that a broken download can continue. A page is drawn for each request,
in a sandbox process.
"""

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from penstock import documents
from penstock.access import sign_link
from penstock.errors import BadValue, NotFound, ResourceLimit, Unreadable
from penstock.web.dependencies import Caller, DocumentId, Reads
from penstock.web.middleware.auth import Authenticator
from penstock.web.middleware.errors import RESPONSES, plain

routes = APIRouter(prefix="/api/documents", tags=["documents"], responses=RESPONSES)

ONE_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


@routes.get(
    "/{id}/content",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, 206: {"description": "A range of the bytes"}},
)
async def download(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    version: Annotated[int | None, Query(ge=1, lt=2**31, description="The newest if left out.")] = None,
    wanted: Annotated[str, Header(alias="Range", description="Such as bytes=0-99.")] = "",
    link: Annotated[str, Query(description="A signed link, in place of a key.")] = "",
) -> Response:
    """The bytes of the newest version, or of another one."""
    found = await documents.blob_of(caller.app, id, version, tenant=caller.tenant)
    headers = {
        "Content-Disposition": disposition(found.name),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
        "ETag": f'"{found.digest.hex()}"',
    }
    start, stop = 0, found.size
    if (part := find_range(wanted, found.size)) is not None:
        start, stop = part
        if start >= stop:
            refusal = plain(
                416, f"The range {wanted} is outside the {found.size} bytes of the document: ask for a smaller one."
            )
            refusal.headers["Content-Range"] = f"bytes */{found.size}"
            return refusal
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{found.size}"
    headers["Content-Length"] = str(stop - start)
    return StreamingResponse(
        caller.product.store.read(found.key, start, stop),
        status_code=206 if part is not None else 200,
        headers=headers,
        media_type=found.media_type or "application/octet-stream",
    )


class DownloadLink(BaseModel):
    """An address that needs no key."""

    url: str = Field(description="Relative to the root of this server.")
    expires_at: datetime


@routes.post("/{id}/link", status_code=201)
async def make_link(
    caller: Reads,
    request: Request,
    id: DocumentId,  # noqa: A002
    seconds: Annotated[int, Query(ge=1, le=900, description="Its lifetime.")] = 300,
) -> DownloadLink:
    """Create a link to the content of one document, which works without a key: for a mail, a page, another program."""
    await documents.blob_of(caller.app, id, tenant=caller.tenant)  # or NotFound
    authenticator: Authenticator = request.app.state.authenticator
    signing = await authenticator.signatures.current()
    expires = (signing.now + timedelta(seconds=seconds)).replace(microsecond=0)
    token = sign_link(
        signing.secrets[signing.newest],
        signing.newest,
        method="GET",
        document=id,
        tenant=caller.tenant,
        expires=expires,
        now=signing.now,
    )
    return DownloadLink(url=f"/api/documents/{id}/content?link={token}", expires_at=expires)


@routes.get(
    "/{id}/pages/{number}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
)
async def draw_page(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    number: Annotated[int, Path(ge=1, lt=2**31, description="The page, from 1 on.")],
    *,
    width: Annotated[int, Query(ge=50, le=2000, description="Pixels.")] = 1000,
    passage: Annotated[
        int | None, Query(ge=0, lt=2**31, description="Mark this chunk, if the PDF itself has its text.")
    ] = None,
    v: Annotated[str, Query(description="Ignored. A new value gets past the browser's cache.")] = "",
) -> Response:
    """A page of a PDF, a packet or an image as a PNG, or as a JPEG where that is smaller by far."""
    shown = await documents.show_document(caller.app, id, tenant=caller.tenant)
    found = await documents.blob_of(caller.app, id, shown.live_version, tenant=caller.tenant)
    media_type = shown.media_type or ""
    if media_type != "application/pdf" and not media_type.startswith("image/"):
        raise BadValue(f"Document {id} has no pages that can be drawn: it is {media_type or 'not read yet'}.")
    drawn: list[tuple[str, bytes]] = []

    async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
        kind = "image/jpeg" if header.get("media_type") == "image/jpeg" else "image/png"  # a sandbox is not trusted
        drawn.append((kind, b"".join([piece async for piece in pieces])))

    arguments = {
        "media_type": media_type,
        "page": number,
        "width": width,
        "limits": caller.app.settings.limits.model_dump(),
        "passage": "" if passage is None else await _text_of(caller, id, number, passage),
    }
    try:
        async with caller.product.store.open(found.key) as file:
            await caller.product.sandboxes.call("draw", file, arguments, name=shown.name, sink=sink)
    except (Unreadable, ResourceLimit) as error:
        raise NotFound(f"Page {number} of document {id} cannot be drawn: {error}") from None
    headers = {
        "Cache-Control": "private, max-age=3600",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
        "ETag": f'"{found.digest.hex()[:32]}-{number}-{width}-{passage}"',
    }
    [(kind, image)] = drawn
    return Response(image, media_type=kind, headers=headers)


async def _text_of(caller: Caller, document: int, page: int, chunk: int) -> str:
    """The text of a chunk of this page; empty if it stands on another one."""
    found = await documents.list_chunks(caller.app, document, after=chunk - 1, most=1, tenant=caller.tenant)
    return found[0].text if found and (found[0].number, found[0].page) == (chunk, page) else ""


def find_range(header: str, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None for all, also for anything but a single range (RFC 9110)."""
    match = ONE_RANGE.fullmatch(header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def disposition(name: str) -> str:
    """RFC 6266: the last part of the name, once in ASCII for old clients and once in full."""
    file_name = re.split(r"[/\\]|!/", name)[-1] or "document"
    ascii_name = re.sub(r'[^\x20-\x7e]|["\\%]', "_", file_name)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(file_name, safe='')}"
