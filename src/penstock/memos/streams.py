"""Streams: the messages of conversations in their order, and how far memos have been made of them.

    async with app.transaction() as tx:
        posted = await post(tx, "support-7", [Message("m1", "The gate is of oak.", "Ann")], tenant="default", most=10_000)

A message with the message_id of an earlier one is the same message; with other content it is refused together with
its whole request. Every change of a stream locks its row.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from asyncpg import Record
from pydantic import Field

from penstock.database import Session, statements
from penstock.documents import fairness_key_of
from penstock.errors import BadValue, NotFound, QueueFull, WrongState

sql = statements(__file__)

NAME_MAX = 200  # bytes of a stream's name
ID_MAX = 1_000  # bytes of a message_id
AUTHOR_MAX = 200  # bytes
TEXT_MAX = 100_000  # bytes
MESSAGES_MAX = 1_000  # in one request
SHARE = "memos"
RETRY_AFTER = 30.0  # seconds, when a client sends faster than memos are made
BATCH = 1_000  # rows that are removed in one transaction
TRIES = 5  # at a stream that is made and deleted concurrently


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation, as a client sends it."""

    message_id: str  # the sender's: the same one again is the same message
    text: str
    author: str = ""
    at: datetime | None = None  # with a time zone


def check_stream_name(text: str) -> str:
    """The name as it is stored: printable, and without slashes because it is a part of URLs."""
    name = unicodedata.normalize("NFC", text).strip()
    if not name or not name.isprintable() or "/" in name or "\\" in name or name in {".", ".."}:
        raise BadValue(f"The name {name[:60]!r} cannot be used for a stream: use printable characters, and no slashes.")
    _bounded("The name of the stream", name, NAME_MAX)
    return name


def check_message(message: Message) -> Message:
    """The message itself, if it can be stored."""
    if not message.message_id:
        raise BadValue("The message has no message_id: send the id by which its sender knows it.")
    if not message.text.strip():
        raise BadValue(f"The message {message.message_id[:100]!r} has no text: leave it out.")
    _bounded("The message_id", message.message_id, ID_MAX)
    _bounded("The author", message.author, AUTHOR_MAX)
    _bounded(f"The text of the message {message.message_id[:100]!r}", message.text, TEXT_MAX)
    return message


def _bounded(what: str, text: str, most: int) -> None:
    if "\0" in text:
        raise BadValue(f"{what} has a NUL character, which cannot be stored: remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadValue(f"{what} has half of a character: send it as UTF-8.") from None
    if size > most:
        raise BadValue(f"{what} takes {size:,} bytes, more than {most:,}: shorten it.")


def read_payload(payload: Mapping[str, Any], message_id: str, source: str) -> tuple[str, Message]:
    """The stream and the message of a payload: `text`, and optionally `stream`, `author` and `at`."""
    stream, text, author, at = (payload.get(key) for key in ("stream", "text", "author", "at"))
    if not isinstance(text, str):
        raise BadValue("The message has no text: send it as `text`.")
    for key, value in (("stream", stream), ("author", author)):
        if value is not None and not isinstance(value, str | int):
            raise BadValue(f"The {key} of the message is not a text.")
    message = Message(message_id, text, "" if author is None else str(author), _time(at))
    return check_stream_name(str(stream) if stream not in (None, "") else source), check_message(message)


def _time(value: object) -> datetime | None:
    """A time in ISO 8601, UTC without a time zone."""
    if value in (None, ""):
        return None
    try:
        found = datetime.fromisoformat(str(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadValue(
            f"The time {str(value)[:50]!r} of the message cannot be read: write 2026-11-17T18:00:00Z."
        ) from None


@dataclass(frozen=True, slots=True)
class PostedMessage:
    """A message that is stored."""

    message_id: str
    number: Annotated[int, Field(description="Its number in the stream.")]
    created: Annotated[bool, Field(description="False: it was stored before.")]


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of posting messages."""

    stream_id: Annotated[int, Field(exclude=True)]
    stream: str
    messages: list[PostedMessage]
    waiting: Annotated[int, Field(description="Messages of the stream of which no memos have been made yet.")]

    @property
    def new(self) -> int:
        return sum(each.created for each in self.messages)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, and the progress of its memos."""

    id: Annotated[int, Field(exclude=True)]
    name: str
    last: Annotated[int, Field(description="The number of its newest message.")]
    done: Annotated[int, Field(description="The number up to which memos have been made.")]
    waiting: int
    memos: Annotated[int, Field(description="The number of live memos.")]
    state: Literal["idle", "waiting", "working", "failed"]
    reason: Annotated[str, Field(description="The reason why no memos are made, if there is one.")]
    job: Annotated[int | None, Field(description="The job that makes the next memos.")]
    waits_since: datetime | None
    created_at: datetime
    posted_at: datetime | None
    why: Annotated[
        str, Field(description="The state of the next batch in a sentence; only when one stream is shown.")
    ] = ""


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of a stream."""

    number: int
    message_id: str
    author: str
    text: str
    at: datetime | None
    received_at: datetime


def batch_key(stream: int, after: int) -> str:
    """The unique key of the job that makes memos of the messages after this one; streams.sql finds the job by it."""
    return f"memo {stream} after {after}"


def removal_key(stream: int) -> str:
    return f"memo {stream} removal"


def fairness_key_of_memos(tenant: str) -> str:
    return fairness_key_of(tenant, SHARE)


# -- intake ---------------------------------------------------------------------------------------------------------------


async def post(tx: Session, name: str, messages: Sequence[Message], *, tenant: str, most: int) -> Posted:
    """Add messages in their order, once; the stream is made with its first. `QueueFull` while `most` of them wait."""
    if not 1 <= len(messages) <= MESSAGES_MAX:
        raise BadValue(f"The request has {len(messages):,} messages: send 1 to {MESSAGES_MAX:,} at a time.")
    name = check_stream_name(name)
    came = _unique([check_message(message) for message in messages])
    stream = await _lock(tx, name, tenant)
    known = await _met_before(tx, stream["id"], list(came.values()))
    new = [message for key, message in came.items() if key not in known]
    waiting = stream["last"] - stream["done"]
    if new and waiting >= most:
        raise QueueFull(
            f"The stream {name} has {waiting:,} messages that wait for memos, and memos.waiting allows {most:,}: send these "
            "again later.",
            retry_after=RETRY_AFTER,
        )
    if new:
        await sql.add_messages.run(tx, tenant=tenant, stream=stream["id"], last=stream["last"], **_columns(new))
        await sql.note_posted.run(tx, stream=stream["id"], count=len(new))
    numbers = known | {message.message_id: stream["last"] + turn for turn, message in enumerate(new, 1)}
    told = [PostedMessage(key, numbers[key], key not in known) for key in came]
    return Posted(stream["id"], name, told, waiting + len(new))


def _unique(messages: Sequence[Message]) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for message in messages:
        if found.setdefault(message.message_id, message) != message:
            raise _conflict(message.message_id)
    return found


def _conflict(message_id: str) -> WrongState:
    return WrongState(
        f"The stream already has a message {message_id[:200]!r} with other content: give this one a message_id of its own."
    )


async def _lock(tx: Session, name: str, tenant: str) -> Record:
    for _ in range(TRIES):
        row = await sql.lock_stream.first(tx, tenant=tenant, name=name)
        if row is not None:
            return row
        await sql.make_stream.run(tx, tenant=tenant, name=name)
    raise WrongState(f"The stream {name} is being deleted repeatedly: send the messages again.")


async def _met_before(tx: Session, stream: int, messages: Sequence[Message]) -> dict[str, int]:
    rows = await sql.met_before(tx, stream=stream, **_columns(messages))
    for row in rows:
        if not row["same"]:
            raise _conflict(row["message_id"])
    return {row["message_id"]: row["seq"] for row in rows}


def _columns(messages: Sequence[Message]) -> dict[str, list[Any]]:
    return {
        "message_ids": [message.message_id for message in messages],
        "authors": [message.author for message in messages],
        "texts": [message.text for message in messages],
        "times": [message.at for message in messages],
    }


# -- queries --------------------------------------------------------------------------------------------------------------


async def list_streams(session: Session, *, tenant: str, after: str = "", most: int = 100) -> list[Stream]:
    """Streams by name."""
    rows = await sql.list_streams(session, tenant=tenant, after=after, name=None, most=most)
    idle = any(row["last"] > row["done"] and row["job"] is None for row in rows)
    trouble = await sql.why_unscheduled.value(session) if idle else None
    return [_stream(row, trouble or "") for row in rows]


async def find_stream(session: Session, name: str, *, tenant: str) -> Stream:
    """A stream by its name; NotFound if it does not exist."""
    rows = await sql.list_streams(session, tenant=tenant, after="", name=check_stream_name(name), most=1)
    if not rows:
        raise _missing(name)
    unread = rows[0]["last"] > rows[0]["done"] and rows[0]["job"] is None
    trouble = await sql.why_unscheduled.value(session) if unread else None
    return _stream(rows[0], trouble or "")


async def list_messages(session: Session, stream: int, *, after: int = 0, most: int = 100) -> list[StreamMessage]:
    """Messages by their number in the stream."""
    rows = await sql.list_messages(session, stream=stream, after=after, most=most)
    return [StreamMessage(**row) for row in rows]


async def streams_waiting(session: Session, *, since: datetime | None, after: int, most: int) -> list[Record]:
    """A page of streams with messages of which no memos have been made, the longest wait first; `ordered` if there is a job."""
    return await sql.streams_waiting(session, since=since, after=after, most=most)


def _missing(name: str) -> NotFound:
    return NotFound(
        f"The stream {name[:200]} does not exist: its first message makes it. `penstock streams list` shows all."
    )


def _stream(row: Record, trouble: str) -> Stream:
    error = json.loads(row["error"]) if row["error"] else {}
    state: Literal["idle", "waiting", "working", "failed"] = "idle"
    reason = ""
    if row["last"] > row["done"]:
        if row["job"] is None:
            state, reason = "waiting", trouble
        elif row["job_state"] == "dead":
            state, reason = "failed", error.get("message", "")
        elif row["job_state"] in {"running", "waiting"}:  # waiting for the answer of a model
            state = "working"
        else:
            state, reason = "waiting", error.get("message", "")
    facts = {key: value for key, value in row.items() if key not in {"job_state", "error"}}
    return Stream(**facts, waiting=row["last"] - row["done"], state=state, reason=reason)


# -- deletion -------------------------------------------------------------------------------------------------------------


async def mark_deleted(tx: Session, name: str, *, tenant: str) -> int:
    """Hide a stream; a job removes it (pipelines/memos.py). Its id."""
    stream_id = await sql.mark_deleted.value(tx, tenant=tenant, name=check_stream_name(name))
    if stream_id is None:
        raise _missing(name)
    return int(stream_id)


async def deleted_streams(session: Session, most: int) -> list[Record]:
    """Streams that are deleted and not yet removed: id and tenant."""
    return await sql.deleted_streams(session, most=most)


async def remove_memos(tx: Session, stream: int) -> int:
    """Remove a batch of a deleted stream's memos; how many. Fewer than `BATCH` were the last ones."""
    removed: int = await sql.remove_memos.value(tx, stream=stream, most=BATCH)
    return removed


async def remove_messages(tx: Session, stream: int) -> int:
    """The same for its messages."""
    removed: int = await sql.remove_messages.value(tx, stream=stream, most=BATCH)
    return removed


async def remove_stream(tx: Session, stream: int) -> None:
    """Remove a deleted stream that has no memos and messages left."""
    await sql.remove_stream.run(tx, stream=stream)


async def batch_of(tx: Session, stream: int) -> int | None:
    """The job that would make the next memos of a deleted stream."""
    job: int | None = await sql.batch_of.value(tx, stream=stream)
    return job


async def delete_message(tx: Session, name: str, seq: int, *, tenant: str) -> None:
    """Remove a message and, where it was the last one that a memo was made of, that memo.

    Memos that it had superseded are live again, unless another one has superseded them since.
    """
    stream = await sql.lock_stream.first(tx, tenant=tenant, name=check_stream_name(name))
    if stream is None:
        raise _missing(name)
    made = [row["memo_id"] for row in await sql.memos_of_message(tx, stream=stream["id"], seq=seq)]
    if await sql.remove_message.value(tx, stream=stream["id"], seq=seq) is None:
        raise NotFound(f"The stream {name[:200]} has no message {seq}.")
    if made:
        heirs = {row["id"]: row["heir"] for row in await sql.remove_unfounded(tx, ids=made)}
        await sql.inherit.run(tx, gone=list(heirs), heirs=[_heir(heirs, gone) for gone in heirs])


def _heir(heirs: Mapping[int, int | None], gone: int) -> int | None:
    """The memo that replaces a deleted one, and is not deleted itself."""
    found: int | None = gone
    for _ in range(len(heirs) + 1):
        if found is None or found not in heirs:
            return found
        found = heirs[found]
    return None
