"""The web: `[fetch]` limits what a given URL may lead to, `[crawl]` how web sites are crawled."""

import re
from datetime import timedelta
from fnmatch import fnmatchcase
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from penstock.settings.types import Bytes, Duration, Section, Size, Unset, Whole

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
    """A list, as TOML writes it, becomes the text that a variable would have."""
    items = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    return ", ".join(str(item) for item in items) if isinstance(items, list | tuple) else value


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _port_list(text: str) -> str:
    items = _items(text)
    if not items or not all(item.isdecimal() and 1 <= int(item) <= 65535 for item in items):
        raise ValueError(f"{text!r} is not a list of ports. Write it like 80, 443.")
    return ", ".join(items)


def _host_list(text: str) -> str:
    for item in _items(text):
        try:
            if not re.fullmatch(r"(?=.*[A-Za-z])[A-Za-z0-9_][A-Za-z0-9_.-]*", item):
                ip_network(item)
        except ValueError:
            raise ValueError(
                f"{item!r} is neither a host nor a network. Write it like intranet.example.org, 10.1.0.0/16."
            ) from None
    return ", ".join(_items(text))


def _types(text: str) -> str:
    items = _items(text.lower())
    if not items or not all(_TYPE.fullmatch(item) for item in items):
        raise ValueError(f"{text!r} is not a list of media types. Write it like text/html, application/pdf.")
    return ", ".join(items)


class FetchSettings(Section):
    """The rules for URLs that clients or documents name."""

    ports: Annotated[str, BeforeValidator(_joined), AfterValidator(_port_list)] = Field(
        "80, 443", description="Ports that a URL may name."
    )
    private: Annotated[Annotated[str, AfterValidator(_host_list)] | None, Unset, BeforeValidator(_joined)] = Field(
        None,
        description="Hosts and networks that may be fetched from although they are not public, "
        "such as intranet.example.org, 10.1.0.0/16. Every client that may add a document can then read from them.",
    )
    redirects: Whole = Field(5, ge=0, le=20, description="How many redirects are followed.")
    connect_timeout: Duration = Field(
        timedelta(seconds=10), description="How long finding a host and, for each address, connecting may take."
    )
    idle_timeout: Duration = Field(timedelta(seconds=30), description="How long a server may send nothing.")
    timeout: Duration = Field(timedelta(minutes=10), description="How long fetching one URL may take.")

    @property
    def port_numbers(self) -> frozenset[int]:
        return frozenset(map(int, _items(self.ports)))

    @property
    def private_entries(self) -> list[str]:
        """The hosts and networks one by one."""
        return _items(self.private or "")


class CrawlSettings(Section):
    """Crawls of web sites. Which addresses may be fetched at all is in `fetch`."""

    user_agent: str = Field(
        "Penstock",
        max_length=200,
        examples=["Penstock (+https://example.org/bot)"],
        description="The User-Agent; its first word is the name that is matched in robots.txt.",
    )
    delay: Duration = Field(
        timedelta(seconds=1), description="Time between two requests to one host, by the whole fleet."
    )
    longest_delay: Duration = Field(
        timedelta(seconds=30),
        description="A Crawl-delay of robots.txt is kept up to this; a longer one counts as this.",
    )
    at_once: Whole = Field(8, ge=1, le=200, description="Pages that one worker fetches at the same time, of all hosts.")
    page_bytes: Size = Field(Bytes(10 * 2**20), ge=2**10, le=2**31, description="Bytes of one page, at most.")
    page_timeout: Duration = Field(timedelta(seconds=30), description="How long fetching one page may take.")
    links: Whole = Field(
        2_000, ge=0, le=20_000, description="Links of one page that are followed; the rest is ignored."
    )
    depth: Whole = Field(
        3, ge=0, le=100, description="Depth of a crawl in links from its first page, unless the crawl sets it."
    )
    pages: Whole = Field(200, ge=1, le=100_000, description="Pages of a crawl, unless the crawl sets it.")
    most_pages: Whole = Field(
        10_000, ge=1, le=1_000_000, description="The largest number of pages that a crawl may set."
    )
    sitemaps: bool = Field(True, description="Whether the pages of a site's sitemaps are crawled, too.")
    media_types: Annotated[str, BeforeValidator(_joined), AfterValidator(_types)] = Field(
        ", ".join(READABLE), description="Media types that are ingested; `*` stands for anything."
    )
    kept: Duration = Field(timedelta(days=30), description="How long a finished crawl is kept; its documents stay.")

    @field_validator("user_agent")
    @classmethod
    def _a_product(cls, text: str) -> str:
        if not re.fullmatch(r"[A-Za-z_-]+(/[\w.+-]+)?( [ -~]*)?", text):
            raise ValueError("This is not a User-Agent. Write it like Penstock, or Penstock (+https://example.org).")
        return text

    @property
    def token(self) -> str:
        """The name of Penstock in robots.txt."""
        return (re.match(r"[A-Za-z_-]+", self.user_agent) or [""])[0].lower()

    def takes(self, media_type: str) -> bool:
        return any(fnmatchcase(media_type, pattern.strip()) for pattern in self.media_types.split(","))
