"""`/documents`: the list with its filters and orders, uploads, and actions on several documents or on all that match."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import JSONResponse

from penstock import documents
from penstock.documents import (
    LARGEST,
    STATES,
    Collection,
    Document,
    DocumentFilter,
    DocumentOrder,
    Upload,
    browse,
    ensure_collection,
    select_matching,
)
from penstock.errors import BadRequest, BadValue, NotFound, Refused
from penstock.text import storable
from penstock.web.dependencies import Caller, Reads, Storable, Writes
from penstock.web.middleware.request_body import Form as Files
from penstock.web.middleware.request_body import check_head, pieces
from penstock.web.pages.overview import count_statuses
from penstock.web.pages.render import back, choose, query, seen_by, show

routes = APIRouter(include_in_schema=False)

PAGE = 50
DEFAULT = "default"  # the collection that an upload goes to when none is shown
MOST_AT_ONCE = 1_000  # documents of one action
SHOWN = 20  # documents that a question lists
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
FILTERS = ("collection", "status", "name", "type", "since", "until")

Text = Annotated[str, Query(max_length=1024)]
Action = Literal["retry", "delete"]


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
    sort: DocumentOrder = "newest",
    before: Annotated[int, Query(ge=1, le=LARGEST)] = LARGEST,
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
) -> Response:
    """The documents."""
    collections = await caller.collections()
    filters = {
        "collection": collection,
        "status": status,
        "name": name,
        "type": media_type,
        "since": since,
        "until": until,
    }
    chosen = choose(collections, collection)
    wanted = await _wanted(caller, collections, filters)
    counts = await count_statuses(request, caller, chosen)
    listed, matching = await _read(caller, wanted, sort, before, page)
    return show(
        request,
        caller,
        "documents.html",
        collections=collections,
        chosen=chosen,
        target=chosen.name if chosen else DEFAULT,  # also before it exists
        filters=filters,
        filtered=any(filters.values()),
        states=STATES,
        counts=counts,
        types=TYPES,
        sort=sort,
        page=page,
        page_size=PAGE,
        matching=matching,
        total=matching.total if matching else _total(counts, status),
        most_at_once=MOST_AT_ONCE,
        found=listed,
        first=before == LARGEST,
        largest=caller.app.settings.limits.bytes,
    )


async def _read(caller: Caller, wanted: DocumentFilter, sort: DocumentOrder, before: int, page: int) -> tuple[Any, Any]:
    """The documents of a page; and, for a filter or an order that no index has, how many match."""
    matching = None
    if sort != "newest":
        offset = (page - 1) * PAGE
        matching = await select_matching(caller.app, wanted, order=sort, offset=offset, most=PAGE, tenant=caller.tenant)
        found = await documents.show_documents(caller.app, matching.ids, tenant=caller.tenant)
        places = {each: place for place, each in enumerate(matching.ids)}
        return documents.DocumentPage(sorted(found, key=lambda each: places[each.id]), None), matching
    if not wanted.is_plain:
        matching = await select_matching(caller.app, wanted, most=0, tenant=caller.tenant)
    return await browse(caller.app, wanted, before=before, most=PAGE, tenant=caller.tenant), matching


async def _wanted(caller: Caller, collections: list[Collection], filters: Mapping[str, str]) -> DocumentFilter:
    chosen = choose(collections, filters.get("collection", ""))
    return DocumentFilter(
        collections=[chosen.id] if chosen else await seen_by(caller),
        status=filters.get("status") or None,
        name=storable(filters.get("name", "").strip(), "") or None,
        media_type=filters.get("type") or None,
        since=parse_day(filters.get("since", "")),
        until=parse_day(filters.get("until", ""), timedelta(days=1)),
    )


def _total(counts: Mapping[str, int], status: str) -> int:
    return counts.get(status, 0) if status else sum(counts[each] for each in STATES if each != "deleted")


def parse_day(text: str, later: timedelta = timedelta(0)) -> datetime | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + later
    except (ValueError, OverflowError):
        raise BadValue(f"{text!r} is not a day: write it as 2026-03-31.") from None


@routes.get("/documents/states")
async def list_states(caller: Reads, ids: Annotated[str, Query(max_length=4000)]) -> JSONResponse:
    """The states of documents, for the list of uploads (static/upload.js)."""
    wanted = [int(each) for each in ids.split(",") if each.isascii() and each.isdecimal()]
    found = await documents.show_documents(caller.app, wanted[:100], tenant=caller.tenant)
    return JSONResponse([_state(each) for each in found if caller.principal.sees(each.collection_id)])


def _state(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "status": document.status,
        "step": document.step,
        "skipped": len(document.gaps) if document.status == "ready" else 0,
        "reason": str((document.error or {}).get("message", "")) if document.status == "failed" else "",
    }


# -- collections and uploads ----------------------------------------------------------------------------------------


@routes.post("/collections", response_class=Response)
async def create_collection(caller: Writes, name: Annotated[Storable, Form()] = "") -> Response:
    """Create a collection."""
    caller.needs_all_collections("create another one")
    made = await documents.create_collection(caller.app, name, tenant=caller.tenant)
    caller.product.notifier.notify()
    return back(f"/documents{query(collection=made.name)}", "created")


@routes.post("/collections/default", response_class=Response)
async def ensure_default(caller: Writes) -> Response:
    """Create the collection `default` unless it exists: for the first upload of a page with scripts."""
    caller.needs_all_collections("create a collection")
    await ensure_collection(caller.app, DEFAULT, tenant=caller.tenant)
    return Response(status_code=204)


@routes.post("/documents/upload", response_class=Response)
async def upload_documents(caller: Writes, request: Request) -> Response:
    """Files of a plain form; a page with scripts sends each by itself, with its progress."""
    check_head(request)
    most = caller.app.settings.limits.bytes
    form = Files(request.headers.get("content-type", ""), pieces(request, 2**62))
    chosen, taken = None, 0
    async for part in form.parts():
        if part.name == "collection" and part.file_name is None:
            chosen = await _upload_target(caller, await form.text(part))
        elif part.file_name:
            if chosen is None:
                raise BadRequest("The form does not name a collection: choose one, and send it again.")
            upload = Upload(chosen, part.file_name, _capped(form.content(), most), uploaded_by=caller.uploader(""))
            await caller.product.intake.accept(upload, tenant=caller.tenant)
            taken += 1
    if chosen is None or not taken:
        raise BadRequest("The form has no file: choose one, and send it again.")
    caller.product.notifier.notify()
    return back(f"/documents{query(collection=chosen)}", "uploaded")


async def _upload_target(caller: Caller, name: str) -> str:
    if name == DEFAULT and caller.principal.collections is None:
        await ensure_collection(caller.app, DEFAULT, tenant=caller.tenant)
        return DEFAULT
    return (await caller.find_collection(name)).name


async def _capped(content: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    count = 0
    async for piece in content:
        count += len(piece)
        if count > most:
            raise BadValue(f"The file is larger than {most:,} bytes (limits.bytes): send a smaller one.")
        yield piece


# -- several documents ----------------------------------------------------------------------------------------------


@routes.post("/documents/bulk", response_class=Response)
async def change_documents(
    caller: Writes,
    request: Request,
    *,
    action: Annotated[str, Form()],
    ids: Annotated[list[int] | None, Form(max_length=MOST_AT_ONCE)] = None,
    up_to: Annotated[int, Form(ge=0, le=LARGEST)] = LARGEST,
    came_from: Annotated[Storable, Form(max_length=4000)] = "",
    confirmed: Annotated[bool, Form()] = False,
) -> Response:
    """Retry or delete the chosen documents, or with `retry-all` and `delete-all` those that match the filter of the list.

    A question comes first. What has been uploaded since is not meant by the answer.
    """
    verb, _, every = action.partition("-")
    if verb not in {"retry", "delete"} or every not in {"", "all"}:
        raise BadValue(f"Unknown action {action!r}: use retry, delete, retry-all or delete-all.")
    address = came_from if came_from.startswith("/documents?") else "/documents"
    if every:
        found, total = await _matching(caller, address, verb, up_to)
    else:
        found = await documents.show_documents(caller.app, ids or [], tenant=caller.tenant)
        found = [each for each in found if caller.principal.sees(each.collection_id)]
        found = [each for each in found if each.status == "failed" or verb == "delete"]
        total = len(found)
    if not found:
        return back(address, "nothing")
    if not confirmed:
        newest = max(each.id for each in found)
        return show(
            request,
            caller,
            "confirm.html",
            action=action,
            verb=verb,
            found=found,
            shown=SHOWN,
            total=total,
            up_to=newest if every else LARGEST,
            ids=[] if every else [each.id for each in found],
            came_from=address,
            restorable_until=await documents.restorable_until(caller.app),
        )
    changed = await _change(caller, [each.id for each in found], verb)
    caller.product.notifier.notify()
    return back(address, f"bulk-{'retried' if verb == 'retry' else 'deleted'}" if changed else "nothing")


async def _matching(caller: Caller, address: str, verb: str, up_to: int) -> tuple[list[Document], int]:
    """The newest documents of a list, up to a bound, and how many match its filter."""
    given = dict(parse_qsl(urlsplit(address).query))
    filters = {key: given.get(key, "")[:1024] for key in FILTERS}
    if verb == "retry":
        if filters["status"] not in {"", "failed"}:
            return [], 0
        filters["status"] = "failed"
    wanted = await _wanted(caller, await caller.collections(), filters)
    matching = await select_matching(caller.app, wanted, up_to=up_to, most=MOST_AT_ONCE, tenant=caller.tenant)
    found = await documents.show_documents(caller.app, matching.ids, tenant=caller.tenant)
    return sorted(found, key=lambda each: -each.id), matching.total


async def _change(caller: Caller, ids: list[int], verb: str) -> int:
    """How many were changed; what has become impossible since is left as it is."""
    if verb == "delete":
        return await documents.delete_page(caller.app.database, ids, "deleted by hand", by=caller.principal.name)
    changed = 0
    for each in ids:
        try:
            await documents.retry_document(caller.app, each, tenant=caller.tenant)
        except (NotFound, Refused):
            continue
        changed += 1
    return changed
