"""`/api/sources` and `/api/messages`: where documents come from by themselves, and which messages wait or have failed."""

import json
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from penstock.documents.inbox import sql
from penstock.engine.redrive import make_ready
from penstock.errors import NotFound, WrongState
from penstock.web.caller import Caller, Reads, Writes
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api", tags=["sources"], responses=RESPONSES)

MessageState = Literal["waiting", "taken", "failed"]


class SourceShown(BaseModel):
    """A source, and how far it was read."""

    name: str
    configured: bool = Field(description="Whether the settings of this process have it.")
    type: str | None = None
    makes: str | None = None
    collection: str | None = None
    position: Any = None
    received: int = 0
    repeats: int = 0
    conflicts: int = 0
    waiting: int = 0
    failed: int = 0
    polled_at: datetime | None = Field(None, description="The last time that it answered.")
    swept_at: datetime | None = None
    error: str | None = Field(None, description="Why it does not answer.")
    error_since: datetime | None = None


class MessageShown(BaseModel):
    """A message, and what became of it."""

    id: int
    source: str
    message_id: str
    number: int = Field(description="2: it came once more, with other content.")
    state: MessageState
    job_id: int | None
    document_id: int | None
    error: dict[str, Any] | None
    repeats: int
    conflicts: int
    received_at: datetime
    changed_at: datetime


@routes.get("/sources")
async def list_sources(caller: Reads) -> list[SourceShown]:
    """The sources of this tenant, by name."""
    caller.needs_all_collections("see sources")
    rows = await caller.app.database.pool.repeat(partial(sql.list_sources, tenant=caller.tenant))
    known = {row["name"]: dict(row) for row in rows}
    chosen = {name: each for name, each in caller.app.settings.sources.items() if each.tenant == caller.tenant}
    found = []
    for name in sorted({*known, *chosen}):
        facts = known.get(name, {"name": name})
        facts["position"] = json.loads(facts["position"]) if facts.get("position") else None
        settings = chosen.get(name)
        kind = {"type": settings.type, "makes": settings.makes, "collection": settings.collection} if settings else {}
        found.append(SourceShown.model_validate({**facts, **kind, "configured": settings is not None}))
    return found


@routes.get("/messages")
async def list_messages(
    caller: Reads,
    *,
    source: Annotated[str | None, Query(max_length=500, description="Only of this one.")] = None,
    state: MessageState | None = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[MessageShown, int]:
    """Messages by number."""
    caller.needs_all_collections("see messages")
    rows = await caller.app.database.pool.repeat(
        partial(sql.list_messages, tenant=caller.tenant, source=source, state=state, after=after, most=limit + 1)
    )
    found = [
        MessageShown.model_validate({**row, "error": json.loads(row["error"]) if row["error"] else None})
        for row in rows
    ]
    return cut(found, limit, lambda each: each.id)


@routes.post("/messages/{message}/retry", status_code=202)
async def retry_message(caller: Writes, message: Annotated[int, Path(ge=1, lt=2**63)]) -> MessageShown:
    """Give a failed message another chance."""
    caller.needs_all_collections("retry messages")
    found = await _find(caller, message)
    if found.state != "failed" or found.job_id is None:
        raise WrongState(f"Message {message} is {found.state}: only a failed one can be tried again.")
    async with caller.app.transaction() as tx:
        ready = await make_ready(tx, [found.job_id])
    if not ready:
        raise WrongState(
            f"The job of message {message} is over and cannot be tried again: let its source send it again."
        )
    caller.product.announcer.tell()
    return await _find(caller, message)


async def _find(caller: Caller, message: int) -> MessageShown:
    """By the list: it is the one place that knows whose a message is."""
    page = await list_messages(caller, source=None, state=None, after=message - 1, limit=1)
    if not page.items or page.items[0].id != message:
        raise NotFound(f"There is no message {message}.")
    return page.items[0]
