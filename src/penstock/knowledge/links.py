"""What a web page says about itself and others, after a box has read it: canonical links, and what it asks of robots.

What a box sends is not to be trusted: every field has its type and its bounds here. Joining thousands of links takes some
milliseconds, so it is done aside (pipelines/crawl.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import Corrupt
from penstock.knowledge.canonical import LONGEST, NoPage, canonical, host_of

TITLE_MAX = 300
_WITH_A_VALUE = frozenset(["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"])


@dataclass(frozen=True, slots=True)
class Site:
    """Which hosts a crawl stays on."""

    hosts: frozenset[str]

    def has(self, url: str) -> bool:
        return host_of(url) in self.hosts


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page as it speaks of itself."""

    title: str = ""
    canonical: str = ""  # its own address as it sees it, if that is another one of the site
    links: Sequence[str] = ()  # of the site, canonical, in their order, each once
    noindex: bool = False
    note: str = ""  # why its links could not be read


def read_leaf(said: object, url: str, site: Site, tags: str, *, token: str) -> Leaf:
    """From what a box has said of the page `url`, and the X-Robots-Tag that came with it."""
    fields = said if isinstance(said, dict) else {}
    title, base, own = (_text(fields, key) for key in ("title", "base", "canonical"))
    orders = _orders([*_texts(fields, "robots"), *_for_us(tags, token)])
    base = _joined(base, url) or url
    links: dict[str, None] = {}
    if not {"nofollow", "none"} & orders:
        for reference in _texts(fields, "links"):
            link = _joined(reference, base)
            if link and site.has(link):
                links[_as_safe(link, url)] = None
    links.pop(url, None)
    other = _joined(own, base) if own else ""
    other = _as_safe(other, url) if other and site.has(other) else ""
    noindex = bool({"noindex", "none"} & orders)
    note = _text(fields, "note")[:TITLE_MAX]
    return Leaf(title.strip()[:TITLE_MAX], other if other != url else "", tuple(links), noindex, note)


def _as_safe(link: str, page: str) -> str:
    """Old links to http on a page that came by https mean the same site."""
    if page.startswith("https://") and link.startswith("http://") and host_of(link) == host_of(page):
        return f"https://{link.removeprefix('http://')}"
    return link


def _joined(reference: str, base: str) -> str:
    """Empty for what leads to no page: another scheme, nonsense, a kilometre of text."""
    if not reference or len(reference) > LONGEST:
        return ""
    try:
        return canonical(reference, base)
    except NoPage:
        return ""


def _orders(texts: Sequence[str]) -> set[str]:
    return {word.strip().lower() for text in texts for word in text.split(",")}


def _for_us(tags: str, token: str) -> list[str]:
    """The words of X-Robots-Tag that are for everybody or for us: `otherbot: noindex, nofollow` is not."""
    kept, ours = [], True
    for part in tags.split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip().lower() not in _WITH_A_VALUE:
            ours = name.strip().lower() in {token, "*"}
        if ours:
            kept.append(rest if colon else part)
    return kept


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise Corrupt("The reader of links returned something else than text.")
    return value.replace("\0", " ").encode("utf-8", "replace").decode()


def _texts(fields: Mapping[str, Any], key: str) -> list[str]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Corrupt("The reader of links returned something else than a list.")
    return [each.replace("\0", "").encode("utf-8", "replace").decode() for each in value]
