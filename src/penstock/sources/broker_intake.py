"""The intake of brokers and webhooks: read the body of a message, and keep a batch before anything is acknowledged.

A body is a JSON object. Anything else, or one that is too large, is poison: it is kept with its reason under an id of its
own, and becomes a dead letter. Two messages with one id are never in one batch: the inbox decides whether the second one is a
repeat.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, TypeVar

import asyncpg

from penstock.documents import SourceMessage, checked_id, encode_payload
from penstock.errors import BadMessage, BadValue, DatabaseTrouble, DatabaseUnreachable
from penstock.settings import Bytes, SourceSettings
from penstock.sources.source import SourceContext
from penstock.telemetry import log
from penstock.text import storable

T = TypeVar("T")

BODY = "penstock:body"  # in a poisoned message: how it begins
SHOWN = 1000  # bytes of it
BATCH_BYTES = 32 * 2**20  # of one transaction; a single larger message has one of its own
PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between tries while the database is away
AWAY = (DatabaseTrouble, DatabaseUnreachable, asyncpg.InterfaceError, asyncpg.PostgresError)
UNUSABLE = (BadValue, asyncpg.DataError, asyncpg.ProgramLimitExceededError)  # one of the batch, and again each time


@dataclass(frozen=True, slots=True)
class Arrival(Generic[T]):
    """A message, and the broker's delivery of it."""

    message: SourceMessage
    size: int
    delivery: T


def read_message(chosen: SourceSettings, body: bytes, given_id: str = "", encoding: str = "") -> SourceMessage:
    """The message of a body; its id is the sender's, else that in the body, else the body's digest."""
    try:
        payload = _parse(chosen, body, encoding)
        message_id = given_id or id_in(payload, chosen.message_id_from) or hashlib.sha256(body).hexdigest()
        message = SourceMessage(checked_id(message_id), payload)
        encode_payload(message)
    except (BadMessage, BadValue) as error:
        return poisoned(body, str(error), given_id)
    return message


def _parse(chosen: SourceSettings, body: bytes, encoding: str) -> dict[str, Any]:
    if len(body) > chosen.largest:
        raise BadMessage(
            f"The message has {Bytes(len(body))}, more than {chosen.largest} (largest of its source): split it, or raise the "
            "limit."
        )
    if encoding.lower() not in {"", "utf-8", "utf8", "identity"}:
        raise BadMessage(f"The message is encoded as {encoding[:50]!r}: send it without an encoding.")
    return parse_object(body)


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; BadMessage names what it is instead."""
    try:
        value = json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise BadMessage("The message is nested too deeply.") from None
    except ValueError as error:
        raise BadMessage(f"The message is not JSON: {str(error)[:200]}.") from None
    if not isinstance(value, dict):
        raise BadMessage(f"The message is not a JSON object but {_kind(value)}.")
    return value


def id_in(payload: Mapping[str, Any], path: str) -> str:
    """The id in the payload of a message; empty if there is none."""
    value: Any = payload
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def poisoned(body: bytes, reason: str, given_id: str = "") -> SourceMessage:
    """A message that cannot be used. Its id has the body's digest in it: a corrected one may come under its own id."""
    begins = storable(body[:SHOWN].decode("utf-8", "replace"))
    mark = hashlib.sha256(body).hexdigest()[:32]
    return SourceMessage(checked_id(f"{given_id or 'poison'}#{mark}"), {BODY: begins}, poison=reason)


def batches(arrivals: Iterable[Arrival[T]]) -> Iterator[list[Arrival[T]]]:
    """In their order, each id once in a batch, and not too many bytes."""
    batch: list[Arrival[T]] = []
    ids: set[str] = set()
    size = 0
    for each in arrivals:
        if batch and (each.message.id in ids or size + each.size > BATCH_BYTES):
            yield batch
            batch, ids, size = [], set(), 0
        batch.append(each)
        ids.add(each.message.id)
        size += each.size
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class BatchOutcome(Generic[T]):
    """The outcome of a committed batch: deliveries to acknowledge, and those to refuse with the reason."""

    good: list[T]
    refused: list[tuple[T, str]]
    new: int


async def take(context: SourceContext, batch: Sequence[Arrival[T]], *, patience: float) -> BatchOutcome[T]:
    """Keep a batch, once the database is there; when this returns, it is committed. Raises after so many seconds in vain."""
    pause, deadline = PAUSE, asyncio.get_running_loop().time() + patience
    while True:
        try:
            return await _take(context, batch)
        except UNUSABLE as error:
            return await _take_apart(context, batch, error, patience=patience)
        except AWAY as error:
            if asyncio.get_running_loop().time() + pause > deadline:
                raise
            log.warning("a batch of a source waits for the database", source=context.name, error=str(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _take(context: SourceContext, batch: Sequence[Arrival[T]]) -> BatchOutcome[T]:
    done = await context.receive([each.message for each in batch])
    conflicts = set(done.conflicts)
    taken: BatchOutcome[T] = BatchOutcome([], [], done.new + done.versions)
    for each in batch:
        if each.message.id in conflicts:
            taken.refused.append((each.delivery, f"Message {each.message.id} came before with other content."))
        elif each.message.poison:
            taken.refused.append((each.delivery, each.message.poison))
        else:
            taken.good.append(each.delivery)
    return taken


async def _take_apart(
    context: SourceContext, batch: Sequence[Arrival[T]], error: Exception, *, patience: float
) -> BatchOutcome[T]:
    """One of them cannot be kept: find it, and keep the others."""
    if len(batch) == 1:
        [one] = batch
        if one.message.poison:
            raise error
        reason = f"The message cannot be kept: {error}"
        body = encode_payload(replace(one.message, payload={"id": one.message.id[:200]})).encode()
        return await take(
            context, [replace(one, message=poisoned(body, reason, one.message.id[:200]))], patience=patience
        )
    whole: BatchOutcome[T] = BatchOutcome([], [], 0)
    for each in batch:
        taken = await take(context, [each], patience=patience)
        whole = BatchOutcome(whole.good + taken.good, whole.refused + taken.refused, whole.new + taken.new)
    return whole


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")
