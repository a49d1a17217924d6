"""Streams: the messages of conversations in their order, and how far memos have been made of them.

    async with app.transaction() as tx:
        posted = await post(tx, "support-7", [Message("m1", "The gate is of oak.", "Ann")], tenant="default", most=10_000)

A message that came before is the same message; one with the number of another and other content is refused, and with it all
that came in the same request. Whoever changes a stream holds the lock of its row. The SQL is in streams.sql.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.naming import share_of
from penstock.errors import BadValue, NotFound, QueueFull, WrongState
from penstock.memos.message import MESSAGES_MAX, Message, check_message, check_stream_name

sql = statements(__file__)

SHARE = "memos"
COME_AGAIN = 30.0  # seconds, for who sends more than memos are made of
BITE = 1_000  # rows that are removed in one transaction
TRIES = 5  # at a stream that others make and delete at the same time


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of messages: for each its number in the stream, and whether it is new."""

    stream: int
    name: str
    messages: list[tuple[str, int, bool]]
    waiting: int  # messages of which no memos have been made

    @property
    def new(self) -> int:
        return sum(created for _, _, created in self.messages)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, and how it is."""

    id: int
    name: str
    last: int
    done: int
    memos: int  # that are live
    state: str  # idle, waiting, working, failed
    reason: str  # why it does not go on
    job: int | None  # that makes the next memos
    waits_since: datetime | None
    created_at: datetime
    posted_at: datetime | None

    @property
    def waiting(self) -> int:
        return self.last - self.done


def batch_key(stream: int, after: int) -> str:
    """Of the one job that makes memos of the messages behind this one; streams.sql looks for it."""
    return f"memo {stream} after {after}"


def removal_key(stream: int) -> str:
    return f"memo {stream} removal"


def share_of_memos(tenant: str) -> str:
    """Whose work it is: each tenant gets its turn."""
    return share_of(tenant, SHARE)


# -- coming in ------------------------------------------------------------------------------------------------------------


async def post(tx: Session, name: str, messages: Sequence[Message], *, tenant: str, most: int) -> Posted:
    """Add messages in their order, once; the stream is made with its first. `QueueFull` while `most` of them wait."""
    if not 1 <= len(messages) <= MESSAGES_MAX:
        raise BadValue(f"There are {len(messages):,} messages: send 1 to {MESSAGES_MAX:,} at a time.")
    name = check_stream_name(name)
    came = _unique([check_message(message) for message in messages])
    stream = await _lock(tx, name, tenant)
    known = await _met_before(tx, stream["id"], list(came.values()))
    new = [message for key, message in came.items() if key not in known]
    waiting = stream["last"] - stream["done"]
    if new and waiting >= most:
        raise QueueFull(
            f"{waiting:,} messages of the stream {name} wait for memos to be made of them, and memos.waiting allows {most:,}: "
            "send these again later.",
            retry_after=COME_AGAIN,
        )
    if new:
        await sql.add_messages.run(tx, tenant=tenant, stream=stream["id"], last=stream["last"], **_columns(new))
        await sql.note_posted.run(tx, stream=stream["id"], count=len(new))
    numbers = known | {message.message_id: stream["last"] + turn for turn, message in enumerate(new, 1)}
    told = [(key, numbers[key], key not in known) for key in came]
    return Posted(stream["id"], name, told, waiting + len(new))


def _unique(messages: Sequence[Message]) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for message in messages:
        if found.setdefault(message.message_id, message) != message:
            raise _conflict(message.message_id)
    return found


def _conflict(message_id: str) -> WrongState:
    return WrongState(
        f"There is a message {message_id[:200]!r} with other content in this stream: give this one a message_id of its own."
    )


async def _lock(tx: Session, name: str, tenant: str) -> Record:
    for _ in range(TRIES):
        row = await sql.lock_stream.first(tx, tenant=tenant, name=name)
        if row is not None:
            return row
        await sql.make_stream.run(tx, tenant=tenant, name=name)
    raise WrongState(f"The stream {name} is deleted again and again just now: send the messages once more.")


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


# -- looking --------------------------------------------------------------------------------------------------------------


async def list_streams(session: Session, *, tenant: str, after: str = "", most: int = 100) -> list[Stream]:
    """By name."""
    rows = await sql.list_streams(session, tenant=tenant, after=after, name=None, most=most)
    idle = any(row["last"] > row["done"] and row["job"] is None for row in rows)
    trouble = await sql.why_nobody_looks.value(session) if idle else None
    return [_stream(row, trouble or "") for row in rows]


async def find_stream(session: Session, name: str, *, tenant: str) -> Stream:
    """One by its name; `NotFound`."""
    rows = await sql.list_streams(session, tenant=tenant, after="", name=check_stream_name(name), most=1)
    if not rows:
        raise NotFound(f"There is no stream {name[:200]}: a stream is made by its first message.")
    behind = rows[0]["last"] > rows[0]["done"] and rows[0]["job"] is None
    trouble = await sql.why_nobody_looks.value(session) if behind else None
    return _stream(rows[0], trouble or "")


def _stream(row: Record, trouble: str) -> Stream:
    error = json.loads(row["error"]) if row["error"] else {}
    state, reason = "idle", ""
    if row["last"] > row["done"]:
        if row["job"] is None:
            state, reason = "waiting", trouble
        elif row["job_state"] == "dead":
            state, reason = "failed", error.get("message", "")
        elif row["job_state"] in {"running", "waiting"}:  # waiting for the answer of a model
            state = "working"
        else:
            state, reason = "waiting", error.get("message", "")
    return Stream(
        row["id"],
        row["name"],
        row["last"],
        row["done"],
        row["memos"],
        state,
        reason,
        row["job"],
        row["waits_since"],
        row["created_at"],
        row["posted_at"],
    )


# -- deletion -------------------------------------------------------------------------------------------------------------


async def mark_deleted(tx: Session, name: str, *, tenant: str) -> int:
    """Let nobody see it any more; a job removes it (pipelines/memo.py). Its number."""
    number = await sql.mark_deleted.value(tx, tenant=tenant, name=check_stream_name(name))
    if number is None:
        raise NotFound(f"There is no stream {name[:200]}: a stream is made by its first message.")
    return int(number)


async def delete_message(tx: Session, name: str, seq: int, *, tenant: str) -> None:
    """Remove a message and, where it was the last one that a memo was made of, that memo.

    What such a memo had superseded is live again, unless something else has superseded it since.
    """
    stream = await sql.lock_stream.first(tx, tenant=tenant, name=check_stream_name(name))
    if stream is None:
        raise NotFound(f"There is no stream {name[:200]}: a stream is made by its first message.")
    made = [row["memo_id"] for row in await sql.memos_of_message(tx, stream=stream["id"], seq=seq)]
    if await sql.remove_message.value(tx, stream=stream["id"], seq=seq) is None:
        raise NotFound(f"There is no message {seq} in the stream {name[:200]}.")
    if made:
        heirs = {row["id"]: row["heir"] for row in await sql.remove_unfounded(tx, ids=made)}
        await sql.inherit.run(tx, gone=list(heirs), heirs=[_heir(heirs, gone) for gone in heirs])


def _heir(heirs: Mapping[int, int | None], gone: int) -> int | None:
    """What has taken the place of a memo that is gone, and is not gone itself."""
    found: int | None = gone
    for _ in range(len(heirs) + 1):
        if found is None or found not in heirs:
            return found
        found = heirs[found]
    return None
