"""What `client.streams` gives back: streams, their messages, and memos."""

from dataclasses import dataclass, field
from datetime import datetime

from penstock.client.results import Result


@dataclass(frozen=True, kw_only=True)
class PostedMessage(Result):
    """A message that is kept; `created` is False when it came before."""

    message_id: str
    number: int = 0
    created: bool = False


@dataclass(frozen=True, kw_only=True)
class PostedMessages(Result):
    """What became of messages."""

    stream: str
    messages: list[PostedMessage] = field(default_factory=list)
    waiting: int = 0


@dataclass(frozen=True, kw_only=True)
class Stream(Result):
    """A conversation, and how far memos have been made of it."""

    name: str
    last: int = 0
    done: int = 0
    waiting: int = 0
    memos: int = 0
    state: str = ""
    reason: str = ""
    why: str = ""
    job: int | None = None
    waits_since: datetime | None = None
    created_at: datetime | None = None
    posted_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class StreamMessage(Result):
    """What somebody has said."""

    number: int
    message_id: str = ""
    author: str = ""
    text: str = ""
    at: datetime | None = None
    received_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Memo(Result):
    """What was worth remembering, with the messages that it was made of."""

    id: int
    stream: str = ""
    text: str = ""
    kind: str = ""
    confidence: float = 0.0
    state: str = ""
    merged_into: int | None = None
    superseded_by: int | None = None
    llm: str = ""
    created_at: datetime | None = None
    changed_at: datetime | None = None
    messages: list[StreamMessage] = field(default_factory=list)
