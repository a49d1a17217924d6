"""How web sites are crawled: in whose name, how fast, and what is taken."""

import re
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from penstock.settings.section import Section
from penstock.settings.values import Bytes, Duration, Size, Whole

# What Penstock reads, as web servers call it. Feeds, pictures, sound and programs are not pages of a site.
READABLE = (
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "text/markdown",
    "text/csv",
    "text/rtf",
    "application/pdf",
    "application/rtf",
    "application/epub+zip",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.openxmlformats-officedocument.*",
    "application/vnd.oasis.opendocument.*",
)
_TYPE = re.compile(r"[a-z0-9!#$&^_.+*-]{1,127}/[a-z0-9!#$&^_.+*-]{1,127}")


def _joined(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _types(text: str) -> str:
    items = [item.strip().lower() for item in text.split(",") if item.strip()]
    if not items or not all(_TYPE.fullmatch(item) for item in items):
        raise ValueError(f"{text!r} is not a list of media types. Write it like text/html, application/pdf.")
    return ", ".join(items)


class CrawlSettings(Section):
    """How web sites are crawled. Where a URL may lead at all is in `fetch`."""

    user_agent: str = Field(
        "Penstock",
        max_length=200,
        examples=["Penstock (+https://example.org/bot)"],
        description="How Penstock calls itself to web sites; its first word is the name that robots.txt is searched for.",
    )
    delay: Duration = Field(
        timedelta(seconds=1), description="Time between two requests to one host, by the whole fleet."
    )
    longest_delay: Duration = Field(
        timedelta(seconds=30),
        description="A Crawl-delay of robots.txt is kept up to this; a longer one counts as this.",
    )
    at_once: Whole = Field(
        8, ge=1, le=200, description="Pages that one worker asks for at the same time, of all hosts."
    )
    page_bytes: Size = Field(Bytes(10 * 2**20), ge=2**10, le=2**31, description="Bytes of one page, at most.")
    page_timeout: Duration = Field(timedelta(seconds=30), description="How long fetching one page may take.")
    links: Whole = Field(2_000, ge=0, le=20_000, description="Links of one page that are looked at; the rest is left.")
    depth: Whole = Field(
        3, ge=0, le=100, description="How many links a crawl goes from its first page, unless it says."
    )
    pages: Whole = Field(200, ge=1, le=100_000, description="Pages of a crawl, unless it says.")
    most_pages: Whole = Field(10_000, ge=1, le=1_000_000, description="Pages that a crawl may ask for, at most.")
    sitemaps: bool = Field(True, description="Whether the pages of a site's sitemaps are taken, too.")
    media_types: Annotated[str, BeforeValidator(_joined), AfterValidator(_types)] = Field(
        ", ".join(READABLE), description="What is taken, by its media type; `*` stands for anything."
    )
    kept: Duration = Field(
        timedelta(days=30), description="How long a crawl that is over is known; its documents stay."
    )

    @field_validator("user_agent")
    @classmethod
    def _a_product(cls, text: str) -> str:
        if not re.fullmatch(r"[A-Za-z_-]+(/[\w.+-]+)?( [ -~]*)?", text):
            raise ValueError(
                "This is no name for a program. Write it like Penstock, or Penstock (+https://example.org)."
            )
        return text

    @property
    def token(self) -> str:
        """The name by which robots.txt speaks of us."""
        return (re.match(r"[A-Za-z_-]+", self.user_agent) or [""])[0].lower()

    def takes(self, media_type: str) -> bool:
        return any(fnmatchcase(media_type, pattern.strip()) for pattern in self.media_types.split(","))
