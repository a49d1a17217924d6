"""`/api/sources` and `/api/messages`: the sources of documents and their messages. `POST /api/inbox/{source}`: a webhook.

A message of a webhook is authenticated by its signature, not by a key:

    Penstock-Message-Id: 4711                                     (or where message_id_from says, in the body)
    Penstock-Timestamp: 1767225600                                (seconds since 1970)
    Penstock-Signature: v1=hex(HMAC-SHA256(secret, "1767225600.4711.{…}"))

A signature is valid for `window`, before and after its time; within it, the same message again is a repeat and changes nothing.
A bad signature and an unknown source get the same answer, so that names cannot be guessed.
"""

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import time
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from penstock import documents
from penstock.database import only
from penstock.documents import SourceMessage, checked_id
from penstock.engine.inspect import make_ready
from penstock.errors import BadKey, BadMessage, BadRequest, BadValue, BodyTooLarge, NotFound, QueueFull, WrongState
from penstock.product import Product
from penstock.settings import Bytes, SourceSettings
from penstock.sources import id_in, parse_object
from penstock.web.dependencies import AfterNumber, Caller, Limit, Page, Reads, Signature, Writes, cut
from penstock.web.middleware.errors import RESPONSES
from penstock.web.middleware.request_body import check_head, pieces

routes = APIRouter(prefix="/api", tags=["sources"], responses=RESPONSES)
webhook_routes = APIRouter(prefix="/api/inbox", tags=["inbox"], responses=RESPONSES)

UNKNOWN = secrets.token_bytes(32)  # the secret of a source that does not exist
CHECK_EVERY = 1.0  # seconds between two counts of an inbox
WHY = (
    "The signature is not good for this source: send Penstock-Timestamp, Penstock-Message-Id and Penstock-Signature as the "
    "page about webhooks says, with the secret of the source and a clock that is right."
)
JSON = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}

MessageState = Literal["waiting", "taken", "failed"]
MessageId = Annotated[str, Header(alias="Penstock-Message-Id", description="The sender's id of the message.")]
Timestamp = Annotated[str, Header(alias="Penstock-Timestamp", description="When it was signed, in seconds since 1970.")]


class SourceState(BaseModel):
    """A source and its progress."""

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
    polled_at: datetime | None = Field(None, description="When it was last read.")
    swept_at: datetime | None = None
    error: str | None = Field(None, description="The last error.")
    error_since: datetime | None = None


class InboxMessage(BaseModel):
    """A message and its outcome."""

    id: int
    source: str
    message_id: str
    number: int = Field(description="2: it was sent again, with other content.")
    state: MessageState
    job_id: int | None
    document_id: int | None
    error: dict[str, Any] | None
    repeats: int
    conflicts: int
    received_at: datetime
    changed_at: datetime


@routes.get("/sources")
async def list_sources(caller: Reads) -> list[SourceState]:
    """The sources of this tenant, by name."""
    caller.needs_all_collections("see sources")
    rows = await caller.app.database.pool.repeat(documents.list_sources, tenant=caller.tenant)
    known = {row["name"]: dict(row) for row in rows}
    chosen = {name: each for name, each in caller.app.settings.sources.items() if each.tenant == caller.tenant}
    found = []
    for name in sorted({*known, *chosen}):
        facts = known.get(name, {"name": name})
        facts["position"] = json.loads(facts["position"]) if facts.get("position") else None
        settings = chosen.get(name)
        kind = {"type": settings.type, "makes": settings.makes, "collection": settings.collection} if settings else {}
        found.append(SourceState.model_validate({**facts, **kind, "configured": settings is not None}))
    return found


@routes.get("/messages")
async def list_messages(
    caller: Reads,
    *,
    source: Annotated[str | None, Query(max_length=500, description="Only of this source.")] = None,
    state: MessageState | None = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[InboxMessage, int]:
    """Messages by id."""
    caller.needs_all_collections("see messages")
    rows = await caller.app.database.pool.repeat(
        documents.list_messages, tenant=caller.tenant, source=source, state=state, after=after, most=limit + 1
    )
    found = [InboxMessage.model_validate(row) for row in rows]
    return cut(found, limit, lambda each: each.id)


@routes.post("/messages/{message}/retry", status_code=202)
async def retry_message(caller: Writes, message: Annotated[int, Path(ge=1, lt=2**63)]) -> InboxMessage:
    """Retry a failed message."""
    caller.needs_all_collections("retry messages")
    found = await _find(caller, message)
    if found.state != "failed" or found.job_id is None:
        raise WrongState(f"Message {message} is {found.state}: only a failed one can be retried.")
    async with caller.app.transaction() as tx:
        ready = await make_ready(tx, [found.job_id])
    if not ready:
        raise WrongState(f"Message {message} cannot be retried, because its job is over: let the source send it again.")
    caller.product.notifier.notify()
    return await _find(caller, message)


async def _find(caller: Caller, message: int) -> InboxMessage:
    """By the list, which is limited to the caller's tenant."""
    page = await list_messages(caller, source=None, state=None, after=message - 1, limit=1)
    if not page.items or page.items[0].id != message:
        raise NotFound(f"Message {message} does not exist.")
    return page.items[0]


# -- webhooks -------------------------------------------------------------------------------------------------------


class MessageReceipt(BaseModel):
    """A message that was accepted."""

    message: int = Field(description="Its id, which the document or packet that it becomes has, too.")
    created: bool = Field(description="False: it was accepted before, with the same content.")
    status: str = Field(description="waiting, taken or failed.")


class InboxCapacity:
    """The inboxes that are full. Counted once a second: a count for each message would cost more than the message."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._seen: dict[str, tuple[float, bool]] = {}

    async def is_full(self, source: str) -> bool:
        until, full = self._seen.get(source, (0.0, False))
        if time.monotonic() >= until:
            full = await self._product.inbox.room(source) == 0
            self._seen[source] = time.monotonic() + CHECK_EVERY, full
        return full


@webhook_routes.post("/{source}", status_code=202, openapi_extra=JSON)
async def post_message(
    signature: Signature, request: Request, source: str, message_id: MessageId = "", timestamp: Timestamp = ""
) -> MessageReceipt:
    """Accept a message: a JSON object, signed with the secret of the source. Sent again, it gets the same answer."""
    product: Product = request.app.state.product
    webhooks = {name: each for name, each in product.settings.sources.items() if each.type == "webhook"}
    chosen = webhooks.get(source)
    # Before the signature is known to be good, all names get the same answers: the largest of them all counts.
    most = max((each.largest for each in webhooks.values()), default=SourceSettings().largest)
    body = await _read(request, most)
    if not _is_signed(chosen, signature or "", timestamp, message_id, body) or chosen is None:
        raise BadKey(WHY)
    if len(body) > chosen.largest:
        raise BodyTooLarge(f"The message has {Bytes(len(body))}, more than {chosen.largest}: send a smaller one.")
    message = _message(request, chosen, message_id, body)
    with only(chosen.tenant):
        return await _keep(request, source, chosen, message)


async def _read(request: Request, most: int) -> bytes:
    check_head(request, most)
    return b"".join([piece async for piece in pieces(request, most)])


def _is_signed(chosen: SourceSettings | None, signature: str, timestamp: str, message_id: str, body: bytes) -> bool:
    """Takes the same time for every source and signature."""
    secret = chosen.secret.get_secret_value().encode() if chosen and chosen.secret else UNKNOWN
    signed = b".".join([timestamp.encode("latin-1", "replace"), message_id.encode("latin-1", "replace"), body])
    good = f"v1={hmac.new(secret, signed, hashlib.sha256).hexdigest()}"
    same = hmac.compare_digest(good.encode(), signature.encode())
    window = (chosen or SourceSettings()).window.total_seconds()
    fresh = re.fullmatch(r"[0-9]{1,12}", timestamp) is not None and abs(time.time() - int(timestamp)) <= window
    return same and fresh


def _message(request: Request, chosen: SourceSettings, message_id: str, body: bytes) -> SourceMessage:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise HTTPException(415, f"The message is {kind[:100]}: send application/json.")
    try:
        payload = parse_object(body)
    except BadMessage as error:
        raise BadRequest(str(error)) from None
    try:  # the bytes of a header are read as Latin-1, and were UTF-8
        given = message_id.encode("latin-1").decode()
    except UnicodeError:
        raise BadValue("Penstock-Message-Id is not UTF-8.") from None
    number = given or id_in(payload, chosen.message_id_from)
    if not number:
        raise BadValue(f"The message has no id: send Penstock-Message-Id, or {chosen.message_id_from!r} in the body.")
    return SourceMessage(checked_id(number), payload)


async def _keep(request: Request, source: str, chosen: SourceSettings, message: SourceMessage) -> MessageReceipt:
    product: Product = request.app.state.product
    capacity: InboxCapacity = request.app.state.inbox_capacity
    if await capacity.is_full(source):
        raise QueueFull(f"The inbox of {source} is full ({chosen.waiting:,} messages). Retry later.")
    done = await asyncio.shield(product.inbox.receive(source, [message]))
    if done.conflicts:
        raise WrongState(
            f"The message {message.id[:200]} was accepted before with other content: send it with a new id."
        )
    number, state = await product.inbox.find(source, message.id)
    return MessageReceipt(message=number, created=bool(done.new or done.versions), status=state)
