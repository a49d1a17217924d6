"""`…/pages/{number}/image`: a page as a picture, drawn when it is asked for, in a box like everything that reads a document."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from penstock import documents
from penstock.errors import BadValue, NotFound, ResourceLimit, Unreadable
from penstock.web.caller import Reads
from penstock.web.parameters import DocumentId
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/documents", tags=["documents"], responses=RESPONSES)


@routes.get(
    "/{id}/pages/{number}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
)
async def draw_page(
    caller: Reads,
    id: DocumentId,  # noqa: A002
    number: Annotated[int, Path(ge=1, lt=2**31, description="The page, from 1 on.")],
    width: Annotated[int, Query(ge=50, le=2000, description="Pixels.")] = 1000,
) -> Response:
    """A page of a PDF, a packet or an image as a PNG, or as a JPEG where that is smaller by far."""
    shown = await documents.show_document(caller.app, id, tenant=caller.tenant)
    found = await documents.blob_of(caller.app, id, shown.live_version, tenant=caller.tenant)
    media_type = shown.media_type or ""
    if media_type != "application/pdf" and not media_type.startswith("image/"):
        raise BadValue(f"Document {id} has no pages that can be drawn: it is {media_type or 'not read yet'}.")
    drawn: list[tuple[str, bytes]] = []

    async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
        kind = "image/jpeg" if header.get("media_type") == "image/jpeg" else "image/png"  # a box is not trusted
        drawn.append((kind, b"".join([piece async for piece in pieces])))

    arguments = {
        "media_type": media_type,
        "page": number,
        "width": width,
        "limits": caller.app.settings.limits.model_dump(),
    }
    try:
        async with caller.product.store.open(found.key) as file:
            await caller.product.boxes.call("draw", file, arguments, name=shown.name, sink=sink)
    except (Unreadable, ResourceLimit) as error:
        raise NotFound(f"Page {number} of document {id} cannot be drawn: {error}") from None
    headers = {
        "Cache-Control": "private, max-age=3600",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
        "ETag": f'"{found.digest.hex()[:32]}-{number}-{width}"',
    }
    [(kind, image)] = drawn
    return Response(image, media_type=kind, headers=headers)
