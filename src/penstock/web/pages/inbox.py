"""`/inbox`: the sources, how far they were read, and the messages that wait or have failed."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from penstock.web import arriving
from penstock.web.caller import Reads, Writes
from penstock.web.pages.look import back, show

routes = APIRouter(prefix="/inbox", include_in_schema=False)

PAGE = 50


@routes.get("", response_class=Response)
async def list_sources(
    caller: Reads,
    request: Request,
    *,
    source: Annotated[str, Query(max_length=500)] = "",
    state: Annotated[Literal["", "waiting", "taken", "failed"], Query()] = "",
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
) -> Response:
    """Sources and messages."""
    return show(
        request,
        caller,
        "inbox.html",
        sources=await arriving.list_sources(caller),
        found=await arriving.list_messages(caller, source=source or None, state=state or None, after=after, limit=PAGE),
        filters={"source": source, "state": state},
    )


@routes.post("/{message}/retry", response_class=Response)
async def retry(caller: Writes, message: Annotated[int, Path(ge=1, lt=2**63)]) -> Response:
    """Another chance for a failed message."""
    await arriving.retry_message(caller, message)
    return back("/inbox", "retried")
