"""How a page is made: the templates, what they can say, and the headers that every page has.

Everything that is put into a page is escaped, and no script or style is written into one: the policy that goes with it would
not let either run.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from penstock import __version__
from penstock.engine.wording import counted, span
from penstock.web.caller import Caller
from penstock.web.pages import charts
from penstock.web.pages.assets import address_of
from penstock.web.pages.said import SAID

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    # With no-referrer a browser sends `Origin: null` with a form, and the form would be refused as another site's.
    "Referrer-Policy": "same-origin",
}
NAV = (  # address, word, icon, only for who runs the fleet
    ("/", "Overview", "overview", False),
    ("/documents", "Documents", "documents", False),
    ("/search", "Search", "search", False),
    ("/packets", "Packets", "packets", False),
    ("/jobs", "Jobs", "jobs", True),
    ("/inbox", "Sources", "inbox", False),
    ("/schedules", "Schedules", "schedules", True),
    ("/fleet", "Fleet", "fleet", True),
)


def show(request: Request, caller: Caller | None, template: str, *, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page; without a caller, for somebody who is nobody yet."""
    text = (
        templates()
        .get_template(template)
        .render(
            viewer=caller,
            path=request.url.path,
            live=request.method == "GET",  # what a form has answered cannot be asked for again
            nav=[each[:3] for each in NAV if caller is not None and (caller.runs_fleet or not each[3])],
            said=SAID.get(request.query_params.get("did", "")),
            **facts,
        )
    )
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def back(address: str, did: str = "") -> RedirectResponse:
    """After a form: to the page that shows what has changed. It says so by a word of a list, never by text."""
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
    )
    made.globals.update(asset=address_of, counted=counted, query=query, version=__version__, charts=charts)
    return made


# -- words ----------------------------------------------------------------------------------------------------------


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
    """A time as a person says it, with the exact one behind it; the script keeps it true while the page is open."""
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


def length(value: timedelta | float | None) -> str:
    if value is None:
        return "–"
    return span(value if isinstance(value, timedelta) else timedelta(seconds=value))


def took(seconds: float | None) -> str:
    """How long something took, exactly enough to compare."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else span(timedelta(seconds=seconds))


def kind(media_type: str | None) -> str:
    """A media type in a word."""
    return KINDS.get(media_type or "", (media_type or "").rpartition("/")[2].rpartition(".")[2] or "unread")


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


def pretty(value: Any) -> str:
    """JSON as a person reads it."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def reason(error: Mapping[str, Any] | None) -> str:
    """The sentence of a failure."""
    return str((error or {}).get("message") or "")


def cause(error: Mapping[str, Any] | None) -> str:
    """Its name."""
    return str((error or {}).get("type") or (error or {}).get("class") or "")


def segment(text: str) -> str:
    """A text as one part of an address."""
    return quote(text, safe="")


def query(*given: Mapping[str, Any], **changed: Any) -> str:
    """The part of an address behind the question mark: what is given, with changes; what is empty is left out."""
    wanted = {key: value for each in (*given, changed) for key, value in each.items()}
    left = {key: value for key, value in wanted.items() if value not in (None, "", [])}
    return f"?{urlencode(left, doseq=True)}" if left else ""


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _exact(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
