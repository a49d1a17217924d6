"""A web page after a sandbox has read it: its links, its canonical URL, its robots directives, and the name of its document.

Output of a sandbox is not trusted: the type and bounds of every field are checked here. Joining thousands of links takes some
milliseconds, so pipelines/crawl.py does it in a thread. The document of a page is called `example.org/guide/start.html`: a
relative path that differs for each URL.
"""

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from penstock.documents import MEMBER, NAME_MAX, check_document_name
from penstock.errors import BadValue, Corrupt
from penstock.knowledge.crawl.urls import LONGEST, NoPage, canonical, host_of
from penstock.text import storable

TITLE_MAX = 300
INDEX = "index.html"  # of a URL that ends in a slash
_SAFE = ":@!$&'()*+,;=~-._"  # as canonical URLs have them in a segment
_KEPT_ENCODED = frozenset("/\\%?")  # they would change the meaning of a name
_WITH_A_VALUE = frozenset(["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"])


@dataclass(frozen=True, slots=True)
class Site:
    """The hosts that a crawl stays on."""

    hosts: frozenset[str]

    def has(self, url: str) -> bool:
        return host_of(url) in self.hosts


@dataclass(frozen=True, slots=True)
class CrawledPage:
    """The title, links and robots directives of a page."""

    title: str = ""
    canonical: str = ""  # the address that it declares, if that is another one of the site
    links: Sequence[str] = ()  # of the site, canonical, in their order, each once
    noindex: bool = False
    note: str = ""  # why its links could not be read


def read_page(said: object, url: str, site: Site, tags: str, *, token: str) -> CrawledPage:
    """Read the output of a sandbox about the page `url`, and the X-Robots-Tag that came with it."""
    fields = said if isinstance(said, dict) else {}
    title, base, own = (_text(fields, key) for key in ("title", "base", "canonical"))
    texts = [*_texts(fields, "robots"), *_for_us(tags, token)]
    orders = {word.strip().lower() for text in texts for word in text.split(",")}
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
    return CrawledPage(title.strip()[:TITLE_MAX], other if other != url else "", tuple(links), noindex, note)


def _as_safe(link: str, page: str) -> str:
    """Links to http on a page that was fetched by https mean the same site."""
    if page.startswith("https://") and link.startswith("http://") and host_of(link) == host_of(page):
        return f"https://{link.removeprefix('http://')}"
    return link


def _joined(reference: str, base: str) -> str:
    """The address of a reference; empty if it is not that of a page: another scheme, nonsense, a very long text."""
    if not reference or len(reference) > LONGEST:
        return ""
    try:
        return canonical(reference, base)
    except NoPage:
        return ""


def _for_us(tags: str, token: str) -> list[str]:
    """The words of X-Robots-Tag that apply to all crawlers or to us: `otherbot: noindex, nofollow` does not."""
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
        raise Corrupt("The reader of links returned a value that is not text.")
    return storable(value, " ")


def _texts(fields: Mapping[str, Any], key: str) -> list[str]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Corrupt("The reader of links returned a value that is not a list.")
    return [storable(each, "") for each in value]


def page_name(url: str) -> str:
    path, asked, query = url.partition("://")[2].partition("?")
    segments = path.split("/")[1:]
    shown = [_shown(segment) or "_" for segment in segments[:-1]] + [_shown(segments[-1]) or INDEX]
    name = "/".join([host_of(url).replace(":", "_"), *shown])
    if asked:
        name += f"?{query.replace('/', '%2F')}"
    exact = all(segments[:-1]) and segments[-1] != INDEX and MEMBER not in name and "/" not in query
    if exact and len(name.encode()) <= NAME_MAX and _is_good(name):
        return name
    return _marked(name.replace(MEMBER, "/"), url)


def _shown(segment: str) -> str:
    """A segment with its letters decoded, if they lead back to the same address."""
    try:
        text = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return segment
    good = text.isprintable() and text == text.strip() and not _KEPT_ENCODED & set(text)
    good = good and unicodedata.normalize("NFC", text) == text
    return text if good and quote(text, safe=_SAFE) == segment else segment


def _is_good(name: str) -> bool:
    try:
        return check_document_name(name) == name
    except BadValue:
        return False


def _marked(name: str, url: str) -> str:
    """Its beginning, a mark, and its ending, by which its format is known."""
    mark = hashlib.sha256(url.partition("://")[2].encode()).hexdigest()[:12]
    head, _, last = name.rpartition("/")
    stem, dot, ending = last.partition("?")[0].rpartition(".")
    ending = f".{ending}" if dot and stem and ending.isalnum() and len(ending) <= 10 else ""
    start = f"{head}/{last.removesuffix(ending)}".encode()
    room = NAME_MAX - len(mark) - len(ending.encode()) - 1
    return f"{start[:room].decode(errors='ignore').rstrip('/ ')}~{mark}{ending}"
