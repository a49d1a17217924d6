"""Rendering: the templates with their filters, flash messages, the headers of every page, and `/static/…`.

Every value in a page is escaped, and no script or style is inline: the policy that goes with the page would not let it run.
Assets have the digest of their content in their address, so that a browser may keep them for ever.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from penstock import __version__
from penstock.documents import Collection, Document, no_such_collection
from penstock.errors import NotFound
from penstock.text import counted, span
from penstock.web.dependencies import Caller
from penstock.web.pages import charts

asset_routes = APIRouter(include_in_schema=False)

ASSETS = Path(__file__).with_name("static")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PREFIX = "/static/"
LINE = 160  # characters of a value in a table
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    # With no-referrer a browser sends `Origin: null` with a form, and the form would be refused as another site's.
    "Referrer-Policy": "same-origin",
}
NAV = (  # address, word, icon, only for operators
    ("/", "Overview", "overview", False),
    ("/documents", "Documents", "documents", False),
    ("/search", "Search", "search", False),
    ("/packets", "Packets", "packets", False),
    ("/jobs", "Jobs", "jobs", True),
    ("/inbox", "Sources", "inbox", False),
    ("/schedules", "Schedules", "schedules", True),
    ("/fleet", "Fleet", "fleet", True),
)
KINDS = {
    "application/pdf": "PDF",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "Excel",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PowerPoint",
    "application/msword": "Word",
    "application/vnd.ms-excel": "Excel",
    "application/vnd.ms-powerpoint": "PowerPoint",
    "application/vnd.oasis.opendocument.text": "ODT",
    "application/vnd.penstock.packet+json": "packet",
    "message/rfc822": "mail",
    "application/zip": "ZIP",
    "text/plain": "text",
    "text/markdown": "Markdown",
    "text/html": "HTML",
    "text/csv": "CSV",
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/tiff": "TIFF",
}
# A page that follows a form shows one of these. Its address has the word and never the sentence, which others could write.
FLASH = {
    "uploaded": "Accepted. A worker prepares it next.",
    "retried": "Retry queued.",
    "cancelled": "Cancelled.",
    "dismissed": "Dismissed. It stays failed, and is not listed as unread any more.",
    "deleted": "Deleted. Search does not find it any more.",
    "restored": "Restored.",
    "bulk-retried": "Retries queued.",
    "bulk-deleted": "Deleted. Search does not find them any more.",
    "paused": "Paused. Running jobs continue; no new ones are claimed.",
    "resumed": "Resumed.",
    "redriven": "Retry started: one job, then ten, then the rest. It stops when the same failure returns.",
    "unchanged": "Not retried: nothing was deployed since these jobs failed, so the same failure is likely to return.",
    "discarded": "Discarded. The history keeps the reason.",
    "run": "A job was enqueued.",
    "removed": "Removed.",
    "closed": "The breaker is closed: calls go through again.",
    "acknowledged": "Acknowledged. It is a problem again when it changes, or after a day.",
    "created": "The collection was created.",
    "signed-out": "Signed out.",
    "nothing": "There was nothing to do.",
}
REFUSALS = {"unchanged"}


def show(request: Request, caller: Caller | None, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page; without a caller, one that needs none (anonymous.py)."""
    did = request.query_params.get("did", "")
    text = (
        templates()
        .get_template(template)
        .render(
            viewer=caller,
            path=request.url.path,
            live=request.method == "GET",  # what a form has answered cannot be asked for again
            nav=[each[:3] for each in NAV if caller is not None and (caller.runs_fleet or not each[3])],
            said=FLASH.get(did),
            refused=did in REFUSALS,
            **values,
        )
    )
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def back(address: str, did: str = "") -> RedirectResponse:
    """After a form: to the page that shows what has changed. `did` is a word of FLASH."""
    joint = "&" if "?" in address else "?"
    return RedirectResponse(f"{address}{joint}did={did}" if did else address, status_code=303, headers=HEADERS)


@cache
def templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        num=number,
        short=short,
        size=size,
        ago=ago,
        at=at,
        span=length,
        took=took,
        seg=segment,
        type=kind,
        pretty=pretty,
        reason=reason,
        prose=prose,
        cause=cause,
        day=day,
        line=line,
        drawable=drawable,
    )
    made.globals.update(asset=address_of, counted=counted, query=query, version=__version__, charts=charts)
    return made


# -- filters --------------------------------------------------------------------------------------------------------


def prose(sentence: str) -> Markup:
    """A sentence whose commands stand between backticks; whatever else is in it stays text."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:  # one without its partner is a character
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )


def number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def short(value: float) -> str:
    """12,345 as 12.3k: where there is little room."""
    for size_of, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size_of:
            return f"{value / size_of:.1f}".removesuffix(".0") + unit
    return f"{value:,.0f}"


def size(value: int) -> str:
    amount = float(value)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{value} bytes"


def ago(moment: datetime | None) -> Markup:
    """A time as a person says it, with the exact one as its tooltip; the script keeps it true while the page is open."""
    if moment is None:
        return Markup("–")
    distance = datetime.now(UTC) - moment
    past = distance >= timedelta(0)
    text = (
        "now" if abs(distance) < timedelta(seconds=1) else f"{span(distance)} ago" if past else f"in {span(distance)}"
    )
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(_iso(moment), _exact(moment), text)


def at(moment: datetime | None) -> Markup:
    """The time of a day, to the second."""
    if moment is None:
        return Markup("–")
    today = moment.date() == datetime.now(UTC).date()
    text = f"{moment:%H:%M:%S}" if today else f"{moment:%d %b %Y, %H:%M:%S}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(_iso(moment), _exact(moment), text)


def day(moment: datetime) -> Markup:
    """A time in the days to come, to the minute."""
    return Markup('<time datetime="{}">{}</time>').format(_iso(moment), f"{moment.astimezone(UTC):%d %b %Y, %H:%M} UTC")


def length(value: timedelta | float | None) -> str:
    if value is None:
        return "–"
    return span(value if isinstance(value, timedelta) else timedelta(seconds=value))


def took(seconds: float | None) -> str:
    """A duration, exactly enough to compare."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else span(timedelta(seconds=seconds))


def kind(media_type: str | None) -> str:
    """A media type in a word."""
    return KINDS.get(media_type or "", (media_type or "").rpartition("/")[2].rpartition(".")[2] or "unread")


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def line(value: Any) -> str:
    """JSON in one line, cut where it is too long for a table."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LINE else f"{text[: LINE - 1]}…"


def drawable(document: Document) -> bool:
    """Whether its pages can be shown as images."""
    media_type = document.media_type or ""
    return media_type == "application/pdf" or media_type.startswith("image/")


def reason(error: Mapping[str, Any] | None) -> str:
    return str((error or {}).get("message") or "")


def cause(error: Mapping[str, Any] | None) -> str:
    return str((error or {}).get("type") or (error or {}).get("class") or "")


def segment(text: str) -> str:
    return quote(text, safe="")


def query(*given: Mapping[str, Any], **changed: Any) -> str:
    """The query of an address: what is given, with changes; what is empty is left out."""
    wanted = {key: value for each in (*given, changed) for key, value in each.items()}
    left = {key: value for key, value in wanted.items() if value or (value == 0 and value is not False)}
    return f"?{urlencode(left, doseq=True)}" if left else ""


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _exact(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# -- collections ----------------------------------------------------------------------------------------------------


async def seen_by(caller: Caller) -> Sequence[int] | None:
    """The ids of the collections that it may see; None for all of its tenant."""
    return None if caller.principal.collections is None else sorted(caller.principal.collections)


def choose(collections: Sequence[Collection], name: str) -> Collection | None:
    """The collection of this name; NotFound for one that it does not see."""
    if not name:
        return None
    for each in collections:
        if each.name == name:
            return each
    raise no_such_collection(name)


# -- assets ---------------------------------------------------------------------------------------------------------


@cache
def read_asset(name: str) -> tuple[str, bytes]:
    content = (ASSETS / name).read_bytes()
    return hashlib.sha256(content).hexdigest()[:12], content


def address_of(name: str) -> str:
    """The address of an asset."""
    return f"{PREFIX}{read_asset(name)[0]}/{name}"


@asset_routes.get(PREFIX + "{digest}/{name}", response_class=Response)
async def show_asset(digest: str, name: str) -> Response:
    """A file of the dashboard."""
    known = {path.name for path in ASSETS.iterdir() if path.suffix in TYPES}
    if name not in known or read_asset(name)[0] != digest:
        raise NotFound(f"{name} does not belong to this release: load the page again.")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(read_asset(name)[1], media_type=TYPES[Path(name).suffix], headers=headers)
