"""Reads web pages (headings, paragraphs, lists, tables; not scripts, styles and navigation), their links, and sitemaps.

The parser's time grows with the square of the nesting (300,000 open tags hang it) and of a tag's attributes, so both are
counted first, and a page with too many is read by stripping its tags. The tasks "links" and "sitemap" serve the crawler:
`links` returns a page's title, canonical address, robots directives and links, `sitemap` the addresses of a sitemap.
"""

import html
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.parsers import expat

from penstock.extraction.office.xmltree import local
from penstock.extraction.result import ExtractedDocument, Gap, PageBuilder, TextAllowance, one_line, whole
from penstock.extraction.text_formats.encoding import decode
from penstock.extraction.text_formats.text import HTML

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

DEEPEST = 2_000
LONGEST = 2_000  # characters of a reference; a longer one is not the address of a page
MOST_DIRECTIVES = 20
GZIP = b"\x1f\x8b"
_UNFOLLOWED = frozenset(["nofollow", "ugc", "sponsored"])
_MOST_ATTRIBUTES = 2_000
_LONG_TAG = re.compile(r"<[A-Za-z][^<>]{10000,}>")
_ATTRIBUTE = re.compile(r"\s[\w:.-]+\s*=")
_CHARSET = re.compile(
    rb"""<(?:meta[^>]{0,300}?charset|\?xml[^>]{0,100}?encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE
)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]*)[^<>]*?(/?)>")
_HIDDEN = re.compile(
    r"<(script|style|template|noscript)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)|<[?!][^<>]*>", re.IGNORECASE | re.DOTALL
)
# Closed by what follows them, or never: they do not nest.
_FLAT = frozenset(
    ["p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody", "thead", "tfoot", "colgroup", "br", "hr",
     "img", "input", "meta", "link", "col", "area", "base", "source", "wbr", "embed", "track", "param"]
)  # fmt: skip
_NOISE = frozenset(
    ["script", "style", "template", "noscript", "nav", "svg", "iframe", "object", "select", "datalist", "head"]
)  # fmt: skip
_BLOCKS = frozenset(
    ["p", "div", "section", "article", "main", "header", "footer", "aside", "address", "blockquote", "figure",
     "figcaption", "form", "fieldset", "legend", "details", "summary", "ul", "ol", "dl", "dt", "dd", "table",
     "caption", "tr", "body", "html", "center", "pre", "hr", "textarea", "video", "audio", "h1", "h2", "h3",
     "h4", "h5", "h6", "li", "td", "th"]
)  # fmt: skip
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_LAYOUT = "table, h1, h2, h3, h4, h5, h6, ul, ol, dl, pre, form, p + p"


def read_html(file: BinaryIO, arguments: Mapping[str, Any]) -> ExtractedDocument:
    raw = whole(file, arguments)
    draft = PageBuilder(TextAllowance(arguments))
    title = write_html(decode(raw, declared_charset(raw)), draft)
    page = draft.page(1)
    if not page.text:
        reason = "no text in it: the page shows only images or is filled in by its scripts"
        return ExtractedDocument(HTML, title=title, gaps=[Gap(None, reason)])
    return ExtractedDocument(HTML, [page], title=title)


def declared_charset(raw: bytes) -> str:
    found = _CHARSET.search(raw[:8192])
    return found[1].decode("ascii", "replace") if found else ""


def write_html(text: str, draft: PageBuilder) -> str:
    """Write a page's text, and return its title."""
    if nesting(text) > DEEPEST or crowded(text):
        draft.paragraph(strip_tags(text))
        return ""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    root = tree.body or tree.root
    if root is not None:
        HtmlWriter(draft).write(root)
    return one_line(title.text())[:1000] if title is not None else ""


def nesting(text: str) -> int:
    """The depth of nested tags, counted roughly, in one pass, and no further than `DEEPEST`."""
    depth = deepest = 0
    for found in _TAG.finditer(text):
        closing, tag, empty = found.groups()
        if empty or tag.lower() in _FLAT:
            continue
        depth = max(0, depth - 1) if closing else depth + 1
        deepest = max(deepest, depth)
        if deepest > DEEPEST:
            break
    return deepest


def crowded(text: str) -> bool:
    """Whether a tag has thousands of attributes: the parser compares each with all others."""
    return any(len(_ATTRIBUTE.findall(tag[0])) > _MOST_ATTRIBUTES for tag in _LONG_TAG.finditer(text))


def strip_tags(text: str, *, lines: bool = False) -> str:
    """The text between the tags; a line ends at the tags of blocks, with `lines` at every tag."""
    text = _HIDDEN.sub(" ", text)
    text = _TAG.sub(
        lambda found: "\n" if lines or found[2].lower() in _BLOCKS or found[2].lower() == "br" else "", text
    )
    return html.unescape(re.sub(r"[ \t]*\n[ \t\n]*", "\n", text))


class HtmlWriter:
    """Walks a tree and writes its blocks; `_words` collects a block until it ends."""

    def __init__(self, draft: PageBuilder) -> None:
        self._draft = draft
        self._words: list[str] = []
        self._kept = 0  # how many <pre> we are in
        self._item = False

    def write(self, root: "LexborNode") -> None:
        for node, leaving in _steps(root, self._descend):
            if leaving:
                self._leave(node)

    def _descend(self, node: "LexborNode") -> bool:
        """Process a node on entering; return whether to walk its children."""
        if node.is_text_node:
            self._text(node.text_content or "")
            return False
        tag = node.tag or ""
        if tag in _NOISE:
            return False
        if tag == "table" and (rows := _data_rows(node)) is not None:
            self._flush()
            caption = node.css_first("caption")
            self._draft.paragraph(_flat(caption) if caption is not None else "")
            self._draft.table(rows)
            return False
        self._enter(node, tag)
        return True

    def _enter(self, node: "LexborNode", tag: str) -> None:
        if tag == "br":
            self._words.append("\n")
        elif tag == "img" and (node.attributes.get("alt") or "").strip():
            self._words.append(f" {node.attributes['alt']} ")
        elif tag in _BLOCKS:
            self._flush()
            self._kept += tag == "pre"
            self._item = tag == "li"

    def _leave(self, node: "LexborNode") -> None:
        tag = node.tag or ""
        if tag in _HEADINGS:
            self._draft.heading("".join(self._words), _HEADINGS[tag])
            self._words.clear()
        elif tag in _BLOCKS:
            self._flush()
            self._kept -= tag == "pre"

    def _text(self, text: str) -> None:
        self._words.append(text if self._kept else re.sub(r"[ \t\r\n\f]+", " ", text))

    def _flush(self) -> None:
        text = "".join(self._words)
        self._words.clear()
        if not self._kept:
            text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
        if not text.strip():
            return
        if self._item:
            self._draft.line(f"- {text.strip()}")
        else:
            self._draft.paragraph(text)
        self._item = False


def _steps(root: "LexborNode", descend: Any) -> Iterator[tuple["LexborNode", bool]]:
    """Each node on leaving it; `descend` decides on entering. Without recursion: trees may be 2,000 deep."""
    node: LexborNode | None = root
    depth = 0
    while node is not None:
        child = node.first_child if descend(node) else None
        if child is not None:
            node, depth = child, depth + 1
            continue
        yield node, True
        while node is not None and node.next is None and depth:
            node, depth = node.parent, depth - 1
            if node is not None:
                yield node, True
        node = node.next if node is not None and depth else None


def _data_rows(table: "LexborNode") -> list[list[str]] | None:
    """The cells of a table with values; None when it only arranges the page."""
    rows = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in table.css("tr")]
    if len(rows) < 2 or max(map(len, rows)) < 2 or any(node.mem_id != table.mem_id for node in table.css(_LAYOUT)):
        return None
    return [[_flat(cell) for cell in row] for row in rows]


def _flat(node: "LexborNode") -> str:
    return one_line(node.text(separator=" "))


# -- links ------------------------------------------------------------------------------------------------------------------


def links(file: BinaryIO, arguments: dict[str, Any], reply: object) -> dict[str, Any]:
    """Run the task "links": at most `most` links; `token` is the name of the crawler in robots directives."""
    raw = whole(file, arguments)
    text = decode(raw, declared_charset(raw))
    if nesting(text) > DEEPEST or crowded(text):
        return {"note": "it is nested too deep or too crowded for its links to be read"}
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    return {
        "title": one_line(title.text())[:1000] if title is not None else "",
        "base": _first(tree, "base[href]"),
        "canonical": _canonical(tree),
        "robots": _directives(tree, str(arguments.get("token", ""))),
        "links": _links(tree, int(arguments.get("most", 0))),
    }


def _first(tree: "LexborHTMLParser", selector: str) -> str:
    node = tree.css_first(selector)
    return _short(node.attributes.get("href")) if node is not None else ""


def _canonical(tree: "LexborHTMLParser") -> str:
    for node in tree.css("link[rel][href]"):
        if "canonical" in (node.attributes.get("rel") or "").lower().split():
            return _short(node.attributes.get("href"))
    return ""


def _directives(tree: "LexborHTMLParser", token: str) -> list[str]:
    """`<meta name=robots>`, and that of the crawler's own name, which adds to it."""
    found = [
        _short(node.attributes.get("content"))
        for node in tree.css("meta[name][content]")
        if (node.attributes.get("name") or "").strip().lower() in {"robots", token}
    ]
    return found[:MOST_DIRECTIVES]


def _links(tree: "LexborHTMLParser", most: int) -> list[str]:
    """Each link once, in the order of the page."""
    found: dict[str, None] = {}
    for node in tree.css("a[href], area[href], frame[src], iframe[src]"):
        if len(found) >= most:
            break
        if _UNFOLLOWED & set((node.attributes.get("rel") or "").lower().split()):
            continue
        reference = _short(node.attributes.get("href") or node.attributes.get("src"))
        if reference and not reference.startswith("#"):
            found[reference] = None
    return list(found)


def _short(text: str | None) -> str:
    text = (text or "").strip()
    return text if len(text) <= LONGEST else ""


# -- sitemaps: a set of pages, an index of other sitemaps, or plain lines -----------------------------------------------------


def sitemap(file: BinaryIO, arguments: dict[str, Any], reply: object) -> dict[str, Any]:
    """Run the task "sitemap": at most `most` addresses from at most `unpacked` bytes."""
    raw = _unpacked(file.read(), int(arguments["unpacked"]))
    most = int(arguments["most"])
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = [line.strip() for line in decode(raw).splitlines()]
        return {"pages": [line for line in lines if line and len(line) <= LONGEST][:most], "sitemaps": []}
    reader = _SitemapReader(most)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = reader.refuse
    with suppress(expat.ExpatError, LookupError, ValueError, _Enough):
        parser.Parse(raw, True)
    return {"pages": reader.pages, "sitemaps": reader.sitemaps}


def _unpacked(raw: bytes, most: int) -> bytes:
    if not raw.startswith(GZIP):
        return raw[:most]
    unpacker = zlib.decompressobj(wbits=31)
    try:
        return unpacker.decompress(raw, most)
    except zlib.error:
        return b""


class _Enough(Exception):
    """The reader has as many addresses as wanted, or met something that no sitemap has."""


class _SitemapReader:
    """Collects the text of `loc`, by its parent element."""

    def __init__(self, most: int) -> None:
        self.pages: list[str] = []
        self.sitemaps: list[str] = []
        self._most = most
        self._above: list[str] = []
        self._words: list[str] | None = None

    def start(self, name: str, _: object) -> None:
        if len(self._above) > 20:
            raise _Enough
        self._above.append(local(name).lower())
        self._words = [] if self._above[-1] == "loc" else None

    def text(self, words: str) -> None:
        if self._words is not None and sum(map(len, self._words)) <= LONGEST:
            self._words.append(words)

    def end(self, _: str) -> None:
        self._above.pop()
        if self._words is None:
            return
        address, self._words = "".join(self._words).strip(), None
        parent = self._above[-1] if self._above else ""
        if address and len(address) <= LONGEST and parent in {"url", "sitemap"}:
            (self.pages if parent == "url" else self.sitemaps).append(address)
            if len(self.pages) + len(self.sitemaps) >= self._most:
                raise _Enough

    def refuse(self, *_: object) -> None:
        raise _Enough
