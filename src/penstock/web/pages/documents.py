"""`/documents`: the list with its filters, uploads, and actions on several documents."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from penstock import documents
from penstock.documents import LARGEST, STATES, DocumentFilter, Upload, browse
from penstock.errors import BadRequest, BadValue, NotFound, Refused
from penstock.text import storable
from penstock.web.dependencies import Caller, Reads, Storable, Writes
from penstock.web.middleware.request_body import Form as Files
from penstock.web.middleware.request_body import check_head, pieces
from penstock.web.pages.render import back, choose, query, seen_by, show

routes = APIRouter(include_in_schema=False)

PAGE = 50
MOST_AT_ONCE = 200  # documents of one form
TYPES = (
    ("application/pdf", "PDF"),
    ("image", "Images and scans"),
    ("text", "Text, Markdown, HTML, CSV"),
    ("message", "Mail"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "Word"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "Excel"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "PowerPoint"),
    ("application/zip", "ZIP archives"),
)

Text = Annotated[str, Query(max_length=1024)]


@routes.get("/documents", response_class=Response)
async def list_documents(  # noqa: PLR0913  a parameter of the request is an argument
    caller: Reads,
    request: Request,
    *,
    collection: Text = "",
    status: Text = "",
    name: Text = "",
    media_type: Annotated[str, Query(alias="type", max_length=200)] = "",
    since: Text = "",
    until: Text = "",
    before: Annotated[int, Query(ge=1, le=LARGEST)] = LARGEST,
) -> Response:
    """The documents."""
    collections = await caller.collections()
    chosen = choose(collections, collection)
    filters = {
        "collection": collection,
        "status": status,
        "name": name,
        "type": media_type,
        "since": since,
        "until": until,
    }
    wanted = DocumentFilter(
        collections=[chosen.id] if chosen else await seen_by(caller),
        status=status or None,
        name=storable(name.strip(), "") or None,
        media_type=media_type or None,
        since=parse_day(since),
        until=parse_day(until, timedelta(days=1)),
    )
    found = await browse(caller.app, wanted, before=before, most=PAGE, tenant=caller.tenant)
    return show(
        request,
        caller,
        "documents.html",
        collections=collections,
        chosen=chosen,
        filters=filters,
        filtered=any(filters.values()),
        states=STATES,
        types=TYPES,
        found=found,
        first=before == LARGEST,
        largest=caller.app.settings.limits.bytes,
    )


def parse_day(text: str, later: timedelta = timedelta(0)) -> datetime | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + later
    except (ValueError, OverflowError):
        raise BadValue(f"{text!r} is no day: write it as 2026-03-31.") from None


@routes.post("/collections", response_class=Response)
async def create_collection(caller: Writes, name: Annotated[Storable, Form()] = "") -> Response:
    """Make a collection."""
    caller.needs_all_collections("make another one")
    made = await documents.create_collection(caller.app, name, tenant=caller.tenant)
    caller.product.notifier.notify()
    return back(f"/documents{query(collection=made.name)}", "created")


@routes.post("/documents/upload", response_class=Response)
async def upload_documents(caller: Writes, request: Request) -> Response:
    """Files of a plain form; a page with scripts sends each by itself, with its progress."""
    check_head(request)
    most = caller.app.settings.limits.bytes
    form = Files(request.headers.get("content-type", ""), pieces(request, 2**62))
    collections = await caller.collections()
    chosen, taken = None, 0
    async for part in form.parts():
        if part.name == "collection" and part.file_name is None:
            chosen = choose(collections, await form.text(part))
        elif part.file_name:
            if chosen is None:
                raise BadRequest("The form does not say for which collection: choose one, and send it again.")
            upload = Upload(chosen.name, part.file_name, _capped(form.content(), most), uploaded_by=caller.uploader(""))
            await caller.product.intake.accept(upload, tenant=caller.tenant)
            taken += 1
    if chosen is None or not taken:
        raise BadRequest("There is no file in the form: choose one, and send it again.")
    caller.product.notifier.notify()
    return back(f"/documents{query(collection=chosen.name)}", "uploaded")


async def _capped(content: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    count = 0
    async for piece in content:
        count += len(piece)
        if count > most:
            raise BadValue(f"The file has more bytes than are taken: {most:,}.")
        yield piece


@routes.post("/documents/bulk", response_class=Response)
async def change_documents(
    caller: Writes,
    request: Request,
    *,
    action: Annotated[str, Form()],
    ids: Annotated[list[int] | None, Form(max_length=MOST_AT_ONCE)] = None,
    came_from: Annotated[Storable, Form(max_length=4000)] = "",
    confirmed: Annotated[bool, Form()] = False,
) -> Response:
    """Try several again, or delete them; after a question."""
    if action not in {"retry", "delete"}:
        raise BadValue(f"There is no action {action!r}: use retry or delete.")
    address = came_from if came_from.startswith("/documents?") else "/documents"
    found = await documents.show_documents(caller.app, ids or [], tenant=caller.tenant)
    found = [each for each in found if caller.principal.sees(each.collection_id)]
    if action == "retry":
        found = [each for each in found if each.status == "failed"]
    if not found:
        return back(address, "nothing")
    if not confirmed:
        return show(request, caller, "confirm.html", action=action, found=found, came_from=came_from)
    changed = 0
    for each in found:
        changed += await _change(caller, each.id, action)
    caller.product.notifier.notify()
    return back(address, f"bulk-{'retried' if action == 'retry' else 'deleted'}" if changed else "nothing")


async def _change(caller: Caller, number: int, action: str) -> int:
    """One of them; what has become impossible meanwhile is left as it is."""
    try:
        if action == "retry":
            await documents.retry_document(caller.app, number, tenant=caller.tenant)
        else:
            await documents.delete_document(caller.app, number, by=caller.principal.name, tenant=caller.tenant)
    except (NotFound, Refused):
        return 0
    return 1
