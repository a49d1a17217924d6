"""What the document of a page is called: `example.org/guide/start.html`, a relative path that differs for each address.

The scheme is not part of it: a page that moves from http to https stays the same document. What a name cannot show as it is
(an empty segment, a query of a kilobyte) ends in a mark that is made of the whole address.
"""

import hashlib
import unicodedata
from urllib.parse import quote, unquote

from penstock.documents.naming import MEMBER, NAME_MAX, check_document_name
from penstock.errors import BadValue
from penstock.knowledge.canonical import host_of

INDEX = "index.html"  # of an address that ends in a slash
_SAFE = ":@!$&'()*+,;=~-._"  # as canonical URLs have them in a segment
_KEPT_ENCODED = frozenset("/\\%?")  # they would be something else in a name


def page_name(url: str) -> str:
    """The name of the document of a canonical URL."""
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
    """A segment in its letters, if those lead back to the same address."""
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
    """Its beginning, a mark, and its ending, by which a reader of files knows what it is."""
    mark = hashlib.sha256(url.partition("://")[2].encode()).hexdigest()[:12]
    head, _, last = name.rpartition("/")
    stem, dot, ending = last.partition("?")[0].rpartition(".")
    ending = f".{ending}" if dot and stem and ending.isalnum() and len(ending) <= 10 else ""
    start = f"{head}/{last.removesuffix(ending)}".encode()
    room = NAME_MAX - len(mark) - len(ending.encode()) - 1
    return f"{start[:room].decode(errors='ignore').rstrip('/ ')}~{mark}{ending}"
