"""What `client.crawls` gives back: crawls, and their pages."""

from dataclasses import dataclass, field
from datetime import datetime

from penstock.client.results import Json, Result


@dataclass(frozen=True, kw_only=True)
class BegunCrawl(Result):
    """A crawl that was begun, or was under way already."""

    id: int
    created: bool = False
    url: str = ""
    collection: str = ""
    state: str = ""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
