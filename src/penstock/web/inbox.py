"""`POST /api/inbox/{source}`: a message of a webhook. Who sends it is known by its signature, and by no key.

    Penstock-Message-Id: 4711                                     (or where message_id_from says, in the body)
    Penstock-Timestamp: 1767225600                                (seconds since 1970)
    Penstock-Signature: v1=hex(HMAC-SHA256(secret, "1767225600.4711.{…}"))

A signature is good for `window`, before and after its time; within it, the same message again is a repeat and changes nothing.
What is not signed well and a source that is not there get the same answer, so that nobody finds out names.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from typing import Annotated

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from penstock.database.tenancy import only
from penstock.documents import Message
from penstock.documents.inbox import checked_id
from penstock.errors import BadKey, BadMessage, BadRequest, BadValue, BodyTooLarge, QueueFull, WrongState
from penstock.pipelines import Product
from penstock.settings.arriving import SourceSettings
from penstock.settings.values import Bytes
from penstock.sources.incoming import number_in, parse_object
from penstock.web.bodies import check_head, pieces
from penstock.web.caller import Signature
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/inbox", tags=["inbox"], responses=RESPONSES)

NOBODY = secrets.token_bytes(32)  # what is checked against for a source that is not there
LOOK_EVERY = 1.0  # seconds between looks whether the inbox is full
WHY = (
    "The signature is not good for this source: send Penstock-Timestamp, Penstock-Message-Id and Penstock-Signature as the "
    "page about webhooks says, with the secret of the source and a clock that is right."
)
JSON = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}

MessageId = Annotated[str, Header(alias="Penstock-Message-Id", description="The sender's number of the message.")]
Timestamp = Annotated[str, Header(alias="Penstock-Timestamp", description="When it was signed, in seconds since 1970.")]


class MessageShown(BaseModel):
    """A message that is kept."""

    message: int = Field(description="Its number here; the document or packet that it becomes has it, too.")
    created: bool = Field(description="False: it came before with the same content.")
    status: str = Field(description="waiting, taken or failed.")


class Crowds:
    """Which sources are full, looked at now and then: counting what waits for each message would cost more than the message."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._seen: dict[str, tuple[float, bool]] = {}

    async def is_full(self, source: str) -> bool:
        until, full = self._seen.get(source, (0.0, False))
        if time.monotonic() >= until:
            full = await self._product.inbox.is_full(source)
            self._seen[source] = time.monotonic() + LOOK_EVERY, full
        return full


@routes.post("/{source}", status_code=202, openapi_extra=JSON)
async def post_message(
    signature: Signature, request: Request, source: str, message_id: MessageId = "", timestamp: Timestamp = ""
) -> MessageShown:
    """Accept a message: a JSON object, signed with the secret of the source. The same one again is answered alike."""
    product: Product = request.app.state.product
    webhooks = {name: each for name, each in product.settings.sources.items() if each.type == "webhook"}
    chosen = webhooks.get(source)
    # Before the signature is known to be good, all names get the same answers: the largest of them all counts.
    most = max((each.largest for each in webhooks.values()), default=SourceSettings().largest)
    body = await _read(request, most)
    if not _is_signed(chosen, signature or "", timestamp, message_id, body) or chosen is None:
        raise BadKey(WHY)
    if len(body) > chosen.largest:
        raise BodyTooLarge(f"The message has {Bytes(len(body))}, and {chosen.largest} are taken at most.")
    message = _message(request, chosen, message_id, body)
    with only(chosen.tenant):
        return await _keep(request, source, chosen, message)


async def _read(request: Request, most: int) -> bytes:
    check_head(request, most)
    return b"".join([piece async for piece in pieces(request, most)])


def _is_signed(chosen: SourceSettings | None, signature: str, timestamp: str, message_id: str, body: bytes) -> bool:
    """The same work for whoever asks; compared in constant time."""
    secret = chosen.secret.get_secret_value().encode() if chosen and chosen.secret else NOBODY
    signed = b".".join([timestamp.encode("latin-1", "replace"), message_id.encode("latin-1", "replace"), body])
    good = f"v1={hmac.new(secret, signed, hashlib.sha256).hexdigest()}"
    same = hmac.compare_digest(good.encode(), signature.encode())
    window = (chosen or SourceSettings()).window.total_seconds()
    fresh = re.fullmatch(r"[0-9]{1,12}", timestamp) is not None and abs(time.time() - int(timestamp)) <= window
    return same and fresh


def _message(request: Request, chosen: SourceSettings, message_id: str, body: bytes) -> Message:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise HTTPException(415, f"A message is application/json, and this one says that it is {kind[:100]}.")
    try:
        payload = parse_object(body)
    except BadMessage as error:
        raise BadRequest(str(error)) from None
    try:  # the bytes of a header are read as Latin-1, and were UTF-8
        given = message_id.encode("latin-1").decode()
    except UnicodeError:
        raise BadValue("Penstock-Message-Id is not UTF-8.") from None
    number = given or number_in(payload, chosen.message_id_from)
    if not number:
        raise BadValue(
            f"The message has no number: send Penstock-Message-Id, or {chosen.message_id_from!r} in the body."
        )
    return Message(checked_id(number), payload)


async def _keep(request: Request, source: str, chosen: SourceSettings, message: Message) -> MessageShown:
    product: Product = request.app.state.product
    crowds: Crowds = request.app.state.crowds
    if await crowds.is_full(source):
        raise QueueFull(f"As many messages of {source} wait as may ({chosen.waiting:,}). Send it again later.")
    done = await asyncio.shield(product.inbox.receive(source, [message]))
    if done.conflicts:
        raise WrongState(
            f"The message {message.id[:200]} came before with other content, and the source takes none: give it a new number."
        )
    number, state = await product.inbox.find(source, message.id)
    return MessageShown(message=number, created=bool(done.new or done.versions), status=state)
