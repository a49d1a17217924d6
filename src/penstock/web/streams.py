"""`/api/streams` and `/api/memos`: messages of conversations in, and what was worth remembering out.

A stream belongs to its tenant and to no collection: a key for some collections alone has no business here.
"""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock import memos
from penstock.engine.explain import explain
from penstock.errors import BadValue
from penstock.memos import streams
from penstock.memos.message import MESSAGES_MAX
from penstock.web.bodies import check_head, pieces
from penstock.web.caller import Caller, Reads, Writes
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.parameters import in_utc
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api", tags=["memos"], responses=RESPONSES)

BODY_MAX = 8 * 2**20  # bytes of one request
StreamName = Annotated[str, Path(max_length=1000, description="The stream's name.")]


class MessageGiven(BaseModel):
    """What somebody has said."""

    model_config = ConfigDict(extra="forbid")

    message_id: str = Field(description="The sender's number of it: the same one again is the same message.")
    text: str = Field(description="Up to 100,000 bytes.")
    author: str = ""
    at: datetime | None = Field(None, description="When it was said; UTC if it does not say otherwise.")


class MessagesGiven(BaseModel):
    """Messages in the order in which they were said."""

    model_config = ConfigDict(extra="forbid")

    messages: list[MessageGiven] = Field(min_length=1, max_length=MESSAGES_MAX)


class MessagePosted(BaseModel):
    """A message that is kept."""

    message_id: str
    number: int = Field(description="Its number in the stream.")
    created: bool = Field(description="False: it came before.")


class MessagesPosted(BaseModel):
    """What became of messages."""

    stream: str
    messages: list[MessagePosted]
    waiting: int = Field(description="Messages of the stream of which no memos have been made yet.")


class StreamShown(BaseModel):
    """A stream, and how far memos have been made of it."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    last: int = Field(description="The number of its newest message.")
    done: int = Field(description="The number up to which memos have been made.")
    waiting: int
    memos: int = Field(description="That are live.")
    state: Literal["idle", "waiting", "working", "failed"]
    reason: str = Field(description="Why it does not go on, if it does not.")
    why: str = Field("", description="Of a stream that is shown by itself: where its next batch is, in a sentence.")
    job: int | None = Field(description="The job that makes the next memos.")
    waits_since: datetime | None
    created_at: datetime
    posted_at: datetime | None


class MessageShown(BaseModel):
    """A message of a stream."""

    number: int
    message_id: str
    author: str
    text: str
    at: datetime | None
    received_at: datetime


class MemoMessage(BaseModel):
    """A message that a memo was made of; of its text, the beginning."""

    number: int
    message_id: str
    author: str
    at: datetime | None
    text: str


class MemoShown(BaseModel):
    """A memo, with the messages that it was made of."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    stream: str
    text: str
    kind: str
    confidence: float
    state: Literal["live", "merged", "superseded"]
    merged_into: int | None = Field(description="The memo that says the same.")
    superseded_by: int | None = Field(description="The memo that contradicts it, and is newer.")
    llm: str = Field(description="The language model that wrote it.")
    created_at: datetime
    changed_at: datetime
    messages: list[MemoMessage]


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
async def post_messages(caller: Writes, request: Request, stream: StreamName) -> MessagesPosted:
    """Add up to 1,000 messages in their order; the stream is made with its first. What came before is answered alike."""
    caller.needs_all_collections("write into streams")
    given = await _read(request)
    messages = [memos.Message(each.message_id, each.text, each.author, in_utc(each.at)) for each in given.messages]
    most = caller.app.settings.memos.waiting
    async with caller.app.transaction() as tx:
        posted = await memos.post(tx, stream, messages, tenant=caller.tenant, most=most)
    told = [MessagePosted(message_id=key, number=number, created=new) for key, number, new in posted.messages]
    return MessagesPosted(stream=posted.name, messages=told, waiting=posted.waiting)


async def _read(request: Request) -> MessagesGiven:
    """By hand: a thousand messages are more than the body of other requests may be."""
    check_head(request, BODY_MAX)
    body = b"".join([piece async for piece in pieces(request, BODY_MAX)])
    try:
        return MessagesGiven.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise BadValue(f"The messages cannot be used: {where}: {first['msg']}.") from None


@routes.get("/streams")
async def list_streams(
    caller: Reads,
    after: Annotated[str, Query(max_length=1000, description="The `next` of the page before.")] = "",
    limit: Limit = 100,
) -> Page[StreamShown, str]:
    """Streams by name."""
    caller.needs_all_collections("see streams")
    found = await _ask(caller, partial(memos.list_streams, after=after, most=limit + 1, tenant=caller.tenant))
    return cut([StreamShown.model_validate(each) for each in found], limit, lambda each: each.name)


@routes.get("/streams/{stream}")
async def show_stream(caller: Reads, stream: StreamName) -> StreamShown:
    """One stream, and where its next batch is."""
    caller.needs_all_collections("see streams")
    found = await _find(caller, stream)
    shown = StreamShown.model_validate(found)
    if found.job is not None:
        job = found.job
        shown.why = (await _ask(caller, lambda session: explain(session, job))).sentence
    return shown


@routes.get("/streams/{stream}/messages")
async def list_stream_messages(
    caller: Reads, stream: StreamName, after: AfterNumber = 0, limit: Limit = 100
) -> Page[MessageShown, int]:
    """Its messages by number."""
    caller.needs_all_collections("see streams")
    found = await _find(caller, stream)
    rows = await _ask(caller, partial(streams.sql.list_messages, stream=found.id, after=after, most=limit + 1))
    return cut([MessageShown(number=row["seq"], **row) for row in rows], limit, lambda each: each.number)


@routes.delete("/streams/{stream}", status_code=204)
async def delete_stream(caller: Writes, stream: StreamName) -> None:
    """Delete it: nobody sees it any more, and a job removes its messages and memos."""
    caller.needs_all_collections("delete streams")
    await caller.product.remembering.delete_stream(stream, tenant=caller.tenant)


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
    stream: Annotated[str | None, Query(max_length=1000, description="Only of this one.")] = None,
    q: Annotated[str, Query(max_length=2000, description="A question, or words; without it, memos by number.")] = "",
    k: Annotated[int, Query(ge=1, le=100, description="Memos that answer the question, at most.")] = 10,
    every: Annotated[bool, Query(description="Also those that were merged or superseded.")] = False,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[MemoShown, int]:
    """Memos by number, or those that answer a question best."""
    caller.needs_all_collections("see memos")
    chosen = None if stream is None else (await _find(caller, stream)).id
    if q.strip():
        question = memos.Question(q, caller.tenant, chosen, k, every)
        found = await memos.find_memos(caller.app.database, caller.product.models, question, caller.app.settings.memos)
        return Page(items=[MemoShown.model_validate(each) for each in found], next=None)
    found = await _ask(
        caller,
        partial(memos.list_memos, tenant=caller.tenant, stream=chosen, after=after, most=limit + 1, every=every),
    )
    return cut([MemoShown.model_validate(each) for each in found], limit, lambda each: each.id)


async def _find(caller: Caller, name: str) -> memos.Stream:
    found: memos.Stream = await _ask(caller, partial(memos.find_stream, name=name, tenant=caller.tenant))
    return found


async def _ask(caller: Caller, question: Any) -> Any:
    return await caller.app.database.pool.repeat(question)
