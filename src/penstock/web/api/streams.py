"""`/api/streams` and `/api/memos`: the messages of conversations, and the memos made of them.

A stream belongs to its tenant and to no collection: a key that is limited to collections is refused.
"""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from penstock import memos
from penstock.engine.inspect import explain_job
from penstock.memos import MESSAGES_MAX, Memo, Posted, Stream, StreamMessage
from penstock.web.dependencies import AfterNumber, Caller, Limit, Page, Reads, Writes, cut, in_utc, read_model
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api", tags=["memos"], responses=RESPONSES)

BODY_MAX = 8 * 2**20  # bytes of one request
StreamName = Annotated[str, Path(max_length=1000, description="The stream's name.")]


class NewMessage(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="forbid")

    message_id: str = Field(description="The sender's id: a message with the same id is the same message.")
    text: str = Field(description="Up to 100,000 bytes.")
    author: str = ""
    at: datetime | None = Field(None, description="When it was sent; UTC without a time zone.")


class NewMessages(BaseModel):
    """Messages in the order of the conversation."""

    model_config = ConfigDict(extra="forbid")

    messages: list[NewMessage] = Field(min_length=1, max_length=MESSAGES_MAX)


BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["messages"],
                    "properties": {"messages": {"type": "array", "minItems": 1, "items": {"type": "object"}}},
                }
            }
        },
    }
}


@routes.post("/streams/{stream}/messages", status_code=201, openapi_extra=BODY)
async def post_messages(caller: Writes, request: Request, stream: StreamName) -> Posted:
    """Add up to 1,000 messages in their order; the first one creates the stream. Repeated ones change nothing."""
    caller.needs_all_collections("write into streams")
    given = await read_model(request, NewMessages, BODY_MAX, "The messages")
    messages = [memos.Message(each.message_id, each.text, each.author, in_utc(each.at)) for each in given.messages]
    most = caller.app.settings.memos.waiting
    async with caller.app.transaction() as tx:
        return await memos.post(tx, stream, messages, tenant=caller.tenant, most=most)


@routes.get("/streams")
async def list_streams(
    caller: Reads,
    after: Annotated[str, Query(max_length=1000, description="The `next` of the page before.")] = "",
    limit: Limit = 100,
) -> Page[Stream, str]:
    """Streams by name."""
    caller.needs_all_collections("see streams")
    found = await caller.app.database.pool.repeat(memos.list_streams, after=after, most=limit + 1, tenant=caller.tenant)
    return cut(found, limit, lambda each: each.name)


@routes.get("/streams/{stream}")
async def show_stream(caller: Reads, stream: StreamName) -> Stream:
    """One stream, and the state of its next batch."""
    caller.needs_all_collections("see streams")
    found = await _find(caller, stream)
    if found.job is None:
        return found
    why = await caller.app.database.pool.repeat(explain_job, found.job)
    return replace(found, why=why.sentence)


@routes.get("/streams/{stream}/messages")
async def list_stream_messages(
    caller: Reads, stream: StreamName, after: AfterNumber = 0, limit: Limit = 100
) -> Page[StreamMessage, int]:
    """Its messages in order."""
    caller.needs_all_collections("see streams")
    found = await _find(caller, stream)
    messages = await caller.app.database.pool.repeat(memos.list_messages, stream=found.id, after=after, most=limit + 1)
    return cut(messages, limit, lambda each: each.number)


@routes.delete("/streams/{stream}", status_code=204)
async def delete_stream(caller: Writes, stream: StreamName) -> None:
    """Hide it at once; a job removes its messages and memos."""
    caller.needs_all_collections("delete streams")
    await caller.product.memos.delete_stream(stream, tenant=caller.tenant)


@routes.delete("/streams/{stream}/messages/{number}", status_code=204)
async def delete_stream_message(
    caller: Writes, stream: StreamName, number: Annotated[int, Path(ge=1, lt=2**63)]
) -> None:
    """Delete a message, and the memos that were made of it alone."""
    caller.needs_all_collections("delete messages")
    async with caller.app.transaction() as tx:
        await memos.delete_message(tx, stream, number, tenant=caller.tenant)


@routes.get("/memos")
async def list_memos(
    caller: Reads,
    *,
    stream: Annotated[str | None, Query(max_length=1000, description="Only of this stream.")] = None,
    q: Annotated[str, Query(max_length=2000, description="A question, or words; without it, memos by id.")] = "",
    k: Annotated[int, Query(ge=1, le=100, description="Memos that answer the question, at most.")] = 10,
    every: Annotated[bool, Query(description="Also those that were merged or superseded.")] = False,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[Memo, int]:
    """Memos by id, or those that answer a question best."""
    caller.needs_all_collections("see memos")
    chosen = None if stream is None else (await _find(caller, stream)).id
    if q.strip():
        question = memos.MemoQuestion(q, caller.tenant, chosen, k, every)
        found = await memos.find_memos(caller.app.database, caller.product.models, question, caller.app.settings.memos)
        return Page(items=found, next=None)
    found = await caller.app.database.pool.repeat(
        memos.list_memos, tenant=caller.tenant, stream=chosen, after=after, most=limit + 1, every=every
    )
    return cut(found, limit, lambda each: each.id)


async def _find(caller: Caller, name: str) -> Stream:
    return await caller.app.database.pool.repeat(memos.find_stream, name, tenant=caller.tenant)
