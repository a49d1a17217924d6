"""`/documents/{id}`: one document: its explanation, its timeline, its text next to its pages, and its actions."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request, Response
from markupsafe import Markup, escape

from penstock import documents
from penstock.documents import LARGEST, ChunkText, Document, Event, Upload, show_packets
from penstock.engine import find_job
from penstock.errors import BadRequest, WrongState
from penstock.web.dependencies import Caller, DocumentId, Reads, Writes
from penstock.web.middleware.request_body import Form as Files
from penstock.web.middleware.request_body import check_head, pieces
from penstock.web.pages.overview import CameFrom, back_to_overview
from penstock.web.pages.render import back, drawable, show

routes = APIRouter(prefix="/documents", include_in_schema=False)

CHUNKS = 50  # of a page
View = Literal["pages", "chunks", "history", "versions", "facts"]


@dataclass(frozen=True, slots=True)
class TimelineItem:
    at: datetime
    word: str
    tone: str = ""
    text: str = ""
    seconds: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentView:
    """The part of a document that a page shows."""

    view: View = "pages"
    page: int = 1
    chunk: int = -1
    passage: int | None = None


@routes.get("/{id}", response_class=Response)
async def show_document(
    caller: Reads,
    request: Request,
    id: DocumentId,  # noqa: A002
    *,
    view: View = "pages",
    page: Annotated[int, Query(ge=1, lt=2**31)] = 1,
    chunk: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
    passage: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
) -> Response:
    """One document; a passage is the chunk that search has found, which is marked."""
    return await _show(caller, request, id, DocumentView(view, page, chunk, passage))


async def _show(caller: Caller, request: Request, document_id: int, asked: DocumentView, fault: str = "") -> Response:
    app, tenant = caller.app, caller.tenant
    document = await documents.show_document(app, document_id, tenant=tenant)
    shown = await _passage(caller, document, asked.passage)
    page, view = shown.page if shown and shown.page else asked.page, asked.view
    why = await documents.explain_document(app, document.id, tenant=tenant)
    job = await _job(caller, document)
    events = await documents.list_events(app, document.id, most=200, tenant=tenant)
    packets = await app.database.pool.repeat(show_packets, [document.id], tenant=tenant)
    members = await documents.list_documents(app, parent=document.id, most=100, tenant=tenant)
    live = document.live_id is not None
    text = await _page(caller, document, page) if live and view == "pages" else None
    return show(
        request,
        caller,
        "document.html",
        status=409 if fault else 200,
        fault=fault,
        document=document,
        parent=await _parent(caller, document),
        why=why,
        evidence=_evidence(caller, why.evidence),
        moments=tell_story(events, job, names_workers=caller.runs_fleet),
        trace=_trace(caller, job),
        view=view,
        page=page,
        passage=shown if text else None,
        text=text,
        marked=mark_passage(text.text, shown) if text else "",
        drawable=drawable(document),
        chunks=await documents.list_chunks(app, document.id, after=asked.chunk, most=CHUNKS + 1, tenant=tenant)
        if live and view == "chunks"
        else [],
        per_page=CHUNKS,
        versions=await documents.list_versions(app, document.id, most=100, tenant=tenant)
        if document.status != "deleted"
        else [],
        members=members,
        packet=packets.get(document.id),
    )


async def _page(caller: Caller, document: Document, number: int) -> Any:
    found = await documents.list_pages(caller.app, document.id, after=number - 1, most=1, tenant=caller.tenant)
    return found[0] if found and found[0].number == number else None


async def _passage(caller: Caller, document: Document, chunk: int | None) -> ChunkText | None:
    if chunk is None or document.live_id is None:
        return None
    found = await documents.list_chunks(caller.app, document.id, after=chunk - 1, most=1, tenant=caller.tenant)
    return found[0] if found and found[0].number == chunk else None


def mark_passage(text: str, passage: ChunkText | None) -> Markup:
    """The text of a page with a passage of it marked; all of it is escaped."""
    if passage is None or not passage.start < passage.stop <= len(text):
        return escape(text)
    before, marked, after = text[: passage.start], text[passage.start : passage.stop], text[passage.stop :]
    return Markup('{}<mark class="found" id="passage" tabindex="-1">{}</mark>{}').format(before, marked, after)


async def _parent(caller: Caller, document: Document) -> Document | None:
    if document.parent is None:
        return None
    [*found] = await documents.show_documents(caller.app, [document.parent], tenant=caller.tenant)
    return found[0] if found else None


async def _job(caller: Caller, document: Document) -> dict[str, Any] | None:
    """The job that prepares it, or has: its attempts are part of the timeline."""
    job = document.job
    if job is None:
        return None
    return await caller.app.database.pool.repeat(find_job, job)


def _trace(caller: Caller, job: Mapping[str, Any] | None) -> str:
    """The traceback of the last failure, for operators."""
    return str((job["error"] or {}).get("traceback", "")) if job and caller.runs_fleet and job["error"] else ""


def _evidence(caller: Caller, evidence: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in evidence.items() if key != "job" or caller.runs_fleet}
    return json.dumps(shown, indent=2, ensure_ascii=False, default=str)


def tell_story(events: Sequence[Event], job: Mapping[str, Any] | None, *, names_workers: bool) -> list[TimelineItem]:
    """The events of a document and the attempts of its job, newest first."""
    moments = [_tell_event(each) for each in events]
    for each in (job or {}).get("attempts") or []:
        began = datetime.fromisoformat(each["started_at"])
        ended = began + timedelta(seconds=each["seconds"] or 0)
        by = f" by worker {each['worker_id']}" if names_workers and each["worker_id"] else ""
        tone = (
            "good" if each["outcome"] == "done" else "bad" if each["outcome"] in {"failed", "dead", "lost"} else "mild"
        )
        said = f"Attempt {each['number']}{by}: {each['outcome']}"
        moments.append(TimelineItem(ended, said, tone, each["error"] or "", each["seconds"]))
    if job is not None and job["state"] == "running" and job["claimed_at"] is not None:
        by = f" by worker {job['worker_id']}" if names_workers else ""
        moments.append(TimelineItem(job["claimed_at"], f"Attempt {job['attempt']}{by}: under way", "busy"))
    return sorted(moments, key=lambda each: each.at, reverse=True)


def _tell_event(event: Event) -> TimelineItem:
    tones = {"ready": "good", "failed": "bad", "cancelled": "bad", "discarded": "bad"}
    details = {key: value for key, value in event.details.items() if key not in {"message", "class", "type", "code"}}
    return TimelineItem(
        event.at,
        event.event.capitalize(),
        tones.get(event.event, ""),
        str(event.details.get("message", "")),
        None,
        details,
    )


# -- actions -------------------------------------------------------------------------------------------------------


@routes.post("/{id}/replace", response_class=Response)
async def replace_document(caller: Writes, request: Request, id: DocumentId) -> Response:  # noqa: A002
    """A new version, from the file of a plain form."""
    check_head(request)
    document = await documents.show_document(caller.app, id, tenant=caller.tenant)
    form = Files(request.headers.get("content-type", ""), pieces(request, caller.app.settings.limits.bytes))
    async for part in form.parts():
        if part.file_name:
            upload = Upload(
                document.collection, document.name, form.content(), uploaded_by=caller.uploader(""), replace=True
            )
            await caller.product.intake.accept(upload, tenant=caller.tenant)
            caller.product.notifier.notify()
            return back(f"/documents/{id}", "uploaded")
    raise BadRequest("The form has no file: choose one, and send it again.")


@routes.post("/{id}/{action}", response_class=Response)
async def change_document(
    caller: Writes,
    request: Request,
    id: DocumentId,  # noqa: A002
    action: Literal["retry", "cancel", "dismiss", "delete", "restore"],
    *,
    confirmed: Annotated[bool, Form()] = False,
    came_from: CameFrom = "",
) -> Response:
    """Retry, cancel, dismiss, delete after a question, restore. A refusal is shown on the document's page."""
    app, tenant = caller.app, caller.tenant
    if action == "delete" and not confirmed:
        found = [await documents.show_document(app, id, tenant=tenant)]
        return show(
            request,
            caller,
            "confirm.html",
            action="delete",
            verb="delete",
            found=found,
            shown=1,
            total=1,
            up_to=LARGEST,
            ids=[id],
            came_from=f"/documents/{id}",
            restorable_until=await documents.restorable_until(app),
        )
    if action == "delete":
        await documents.delete_document(app, id, by=caller.principal.name, tenant=tenant)
    else:
        changes: dict[str, Callable[..., Awaitable[Document]]] = {
            "retry": documents.retry_document,
            "cancel": documents.cancel_document,
            "dismiss": partial(documents.dismiss_document, by=caller.principal.name),
            "restore": documents.restore_document,
        }
        try:
            await changes[action](app, id, tenant=tenant)
        except WrongState as error:
            return await _show(caller, request, id, DocumentView(), fault=str(error))
    caller.product.notifier.notify()
    did = {
        "retry": "retried",
        "cancel": "cancelled",
        "dismiss": "dismissed",
        "delete": "deleted",
        "restore": "restored",
    }[action]
    return back_to_overview(request, did) if came_from else back(f"/documents/{id}", did)
