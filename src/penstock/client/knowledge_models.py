"""Results of `client.crawls`, `client.facts` and `client.streams`; see models.py."""

from dataclasses import field
from datetime import datetime

from penstock.client.models import Json, Result


class BegunCrawl(Result):
    """A crawl that was begun, or was under way already."""

    id: int
    created: bool = False
    url: str = ""
    collection: str = ""
    state: str = ""


class Crawl(Result):
    """A web site on its way into a collection, and how far it is."""

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
    """A page of a crawl: which document it is, or why it is none."""

    id: int
    url: str = ""
    depth: int = 0
    state: str = ""
    reason: str = ""
    document: int | None = None
    left_out: int = 0
    changed_at: datetime | None = None


class Fact(Result):
    """What a document says, with its own words; `passage` and `score` only where it was searched for."""

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
    """The hits, the best first."""

    hits: list[Fact]
    more: bool = False
    took_ms: float = 0.0


class Entity(Result):
    """A thing that facts are about."""

    id: int
    name: str
    type: str = ""
    facts: int = 0


class Extraction(Result):
    """How far a collection is; `asked`: documents that were put in line just now."""

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
    """A message that is kept; `created` is False when it came before."""

    message_id: str
    number: int = 0
    created: bool = False


class PostedMessages(Result):
    """What became of messages."""

    stream: str
    messages: list[PostedMessage] = field(default_factory=list)
    waiting: int = 0


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


class StreamMessage(Result):
    """What somebody has said."""

    number: int
    message_id: str = ""
    author: str = ""
    text: str = ""
    at: datetime | None = None
    received_at: datetime | None = None


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
