"""`/search`: the best passages for a question, with its words marked, and the way to the page where they stand."""

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup, escape

from penstock import search
from penstock.web.dependencies import Reads
from penstock.web.pages.documents import TYPES, parse_day
from penstock.web.pages.render import choose, show

routes = APIRouter(include_in_schema=False)

PAGE = 10
EMPTY_LINES = re.compile(r"\n\s*\n")
Text = Annotated[str, Query(max_length=2000)]


@routes.get("/search", response_class=Response)
async def find(  # noqa: PLR0913  a parameter of the request is an argument
    caller: Reads,
    request: Request,
    *,
    q: Text = "",
    collection: Text = "",
    media_type: Annotated[str, Query(alias="type", max_length=200)] = "",
    since: Text = "",
    until: Text = "",
    mode: Literal["hybrid", "words", "vectors"] = "hybrid",
    offset: Annotated[int, Query(ge=0, le=1000)] = 0,
) -> Response:
    """The passages that answer best."""
    collections = await caller.collections()
    chosen = choose(collections, collection)
    filters = {"q": q, "collection": collection, "type": media_type, "since": since, "until": until}
    found = None
    if q.strip():
        among = [chosen] if chosen else collections
        found = await search.find(
            caller.app.database,
            caller.product.models,
            search.Query(
                text=q,
                collections=[
                    search.CollectionRef(each.id, each.model, each.search_language, each.index) for each in among
                ],
                k=PAGE,
                offset=offset,
                media_types=[media_type] if "/" in media_type else [],
                since=parse_day(since),
                until=parse_day(until),
                mode=mode,
            ),
            caller.product.qdrant,
        )
    return show(
        request,
        caller,
        "search.html",
        collections=collections,
        filters=filters,
        types=[each for each in TYPES if "/" in each[0]],
        mode=mode,
        offset=offset,
        page_size=PAGE,
        found=found,
        marked=[mark(hit.text, hit.highlights) for hit in found.hits] if found else [],
    )


def mark(text: str, highlights: Any) -> Markup:
    """The text with the words of the question marked, without its empty lines; all of it is escaped."""
    said, end = [], 0
    for start, stop in sorted(highlights):
        if start < end:
            continue
        said += [escape(_dense(text[end:start])), Markup("<mark>{}</mark>").format(text[start:stop])]
        end = stop
    return Markup("").join([*said, escape(_dense(text[end:]))]).strip()


def _dense(text: str) -> str:
    return EMPTY_LINES.sub("\n", text)
