"""`…/content`: a document's bytes as they came, in a way that no browser runs them; and links to them.

Always an attachment, of the type that the content was found to be (never what the uploader said), not to be guessed at, in
a sandbox. One range of bytes is served as such, so that a broken download can go on.
"""

import re
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from penstock import documents
from penstock.access import links
from penstock.web.access import Door
from penstock.web.caller import Reads
from penstock.web.parameters import DocumentId
from penstock.web.problems import RESPONSES, plain

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
    version: Annotated[int | None, Query(ge=1, lt=2**31, description="Which one; without it, the newest.")] = None,
    wanted: Annotated[str, Header(alias="Range", description="Such as bytes=0-99.")] = "",
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
            refusal = plain(416, f"The range {wanted} is outside of the {found.size} bytes.")
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


class LinkShown(BaseModel):
    """An address that needs no key."""

    url: str = Field(description="From the root of this server on.")
    expires_at: datetime


@routes.post("/{id}/link", status_code=201)
async def make_link(
    caller: Reads,
    request: Request,
    id: DocumentId,  # noqa: A002
    seconds: Annotated[int, Query(ge=1, le=900, description="How long it is good.")] = 300,
) -> LinkShown:
    """A link to the content of one document, for who has no key: in a mail, on a page, for another program."""
    await documents.blob_of(caller.app, id, tenant=caller.tenant)  # there is something to link to
    door: Door = request.app.state.door
    signing = await door.signatures.current()
    expires = (signing.now + timedelta(seconds=seconds)).replace(microsecond=0)
    token = links.sign(
        signing.secrets[signing.newest],
        signing.newest,
        method="GET",
        document=id,
        tenant=caller.tenant,
        expires=expires,
        now=signing.now,
    )
    return LinkShown(url=f"/api/documents/{id}/content?link={token}", expires_at=expires)


def find_range(header: str, size: int) -> tuple[int, int] | None:
    """From and before which byte, or None for all: what is no single range may be ignored (RFC 9110)."""
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
