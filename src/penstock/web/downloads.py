"""`…/content`: a document's bytes as they came, in a way that no browser runs them.

Always an attachment, of the type that the content was found to be (never what the uploader said), not to be guessed at, in
a sandbox. One range of bytes is served as such, so that a broken download can go on.
"""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from penstock import documents
from penstock.errors import NotFound
from penstock.web.parameters import DocumentId, Open
from penstock.web.problems import RESPONSES, plain

routes = APIRouter(prefix="/api/documents", tags=["documents"], responses=RESPONSES)

ONE_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


@routes.get(
    "/{id}/content",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, 206: {"description": "A range of the bytes"}},
)
async def download(
    product: Open,
    id: DocumentId,  # noqa: A002
    wanted: Annotated[str, Header(alias="Range", description="Such as bytes=0-99.")] = "",
) -> Response:
    """The newest version's bytes."""
    found = await documents.show_document(product.app, id)
    if found.status == "deleted":
        raise NotFound(f"Document {id} ({found.name}) is deleted.")
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
        product.store.read(found.key, start, stop),
        status_code=206 if part is not None else 200,
        headers=headers,
        media_type=found.media_type or "application/octet-stream",
    )


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
