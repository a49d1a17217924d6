"""Results of `client.crawls`, `client.facts` and `client.streams`; see models.py."""

from dataclasses import field
from datetime import datetime

from penstock.client.models import Json, Result


class BegunCrawl(Result):
    """A crawl that was started, or was running already."""

    id: int
    created: bool = False
    url: str = ""
    collection: str = ""
    state: str = ""


class Crawl(Result):
    """A crawl and its progress."""

    id: int
    collection: str = ""
    url: str = ""
    hosts: list[str] = field(default_factory=list)
    depth: int = 0
    max_pages: int = 0
    state: str = ""
    error: Json | None = None
    begun_by: str = ""
    waiting: int = 0
    kept: int = 0
    skipped: int = 0
    failed: int = 0
    left_out: int = 0
    unprepared: int = 0
    created_at: datetime | None = None
    ended_at: datetime | None = None


class CrawlPage(Result):
    """A page of a crawl: the document that it became, or the reason why not."""

    id: int
    url: str = ""
    depth: int = 0
    state: str = ""
    reason: str = ""
    document: int | None = None
    left_out: int = 0
    changed_at: datetime | None = None


class Fact(Result):
    """A fact with its quote; `passage` and `score` only in hits of a search."""

    id: int
    statement: str
    kind: str = ""
    relation: str | None = None
    quote: str = ""
    confidence: float = 0.0
    document: int = 0
    version: int = 0
    name: str = ""
    collection: str = ""
    page: int = 0
    start: int = 0
    stop: int = 0
    entities: list[Json] = field(default_factory=list)
    passage: str = ""
    score: float = 0.0


class FoundFacts(Result):
    """The hits, best first."""

    hits: list[Fact]
    more: bool = False
    took_ms: float = 0.0


class Entity(Result):
    """An entity, which facts are about."""

    id: int
    name: str
    type: str = ""
    facts: int = 0


class Extraction(Result):
    """The progress of a collection; `asked`: documents that this call has enqueued."""

    documents: int = 0
    extracted: int = 0
    partial: int = 0
    windows: int = 0
    facts: int = 0
    rejected: int = 0
    cost: float = 0.0
    keeps: bool = False
    asked: int = 0


class PostedMessage(Result):
    """A message that was accepted; `created` is False when it was accepted before."""

    message_id: str
    number: int = 0
    created: bool = False


class PostedMessages(Result):
    """The outcome of added messages."""

    stream: str
    messages: list[PostedMessage] = field(default_factory=list)
    waiting: int = 0


class Stream(Result):
    """A conversation, and the progress of its memos."""

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


class StreamMessage(Result):
    """A message of a conversation."""

    number: int
    message_id: str = ""
    author: str = ""
    text: str = ""
    at: datetime | None = None
    received_at: datetime | None = None


class Memo(Result):
    """A memo, with the messages that it was made of."""

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
