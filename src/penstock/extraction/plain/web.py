"""Web pages as text: headings, paragraphs, lists, tables; without scripts, styles and navigation.

The parser's time grows with the square of the nesting (300,000 open tags hang it) and of a tag's attributes, so these are
counted first, and what is nested too deep or too crowded is read by taking the tags away.
"""

import html
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.extraction.draft import Allowance, Draft, one_line
from penstock.extraction.plain.encoding import decode
from penstock.extraction.plain.textkind import HTML
from penstock.extraction.rawbytes import whole
from penstock.extraction.reading import Gap, Reading

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

DEEPEST = 2_000
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


def read_html(file: BinaryIO, arguments: Mapping[str, Any]) -> Reading:
    raw = whole(file, arguments)
    draft = Draft(Allowance(arguments))
    title = write_html(decode(raw, declared_charset(raw)), draft)
    page = draft.page(1)
    if not page.text:
        reason = "no text in it: the page shows only images or is filled in by its scripts"
        return Reading(HTML, title=title, gaps=[Gap(None, reason)])
    return Reading(HTML, [page], title=title)


def declared_charset(raw: bytes) -> str:
    found = _CHARSET.search(raw[:8192])
    return found[1].decode("ascii", "replace") if found else ""


def write_html(text: str, draft: Draft) -> str:
    """Write a page's text; gives its title."""
    if nesting(text) > DEEPEST or crowded(text):
        draft.paragraph(strip_tags(text))
        return ""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    root = tree.body or tree.root
    if root is not None:
        Writer(draft).write(root)
    return one_line(title.text())[:1000] if title is not None else ""


def nesting(text: str) -> int:
    """How deep the tags are nested, counted roughly and in one pass, and no further than it matters."""
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
    """A tag with thousands of attributes: each is compared with all others."""
    return any(len(_ATTRIBUTE.findall(tag[0])) > _MOST_ATTRIBUTES for tag in _LONG_TAG.finditer(text))


def strip_tags(text: str, *, lines: bool = False) -> str:
    """The text between the tags; a block's border (with `lines`, every tag) is a line's end."""
    text = _HIDDEN.sub(" ", text)
    text = _TAG.sub(
        lambda found: "\n" if lines or found[2].lower() in _BLOCKS or found[2].lower() == "br" else "", text
    )
    return html.unescape(re.sub(r"[ \t]*\n[ \t\n]*", "\n", text))


class Writer:
    """Walks a tree and writes its blocks; words wait in `_words` until their block ends."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._words: list[str] = []
        self._kept = 0  # how many <pre> we are in
        self._item = False

    def write(self, root: "LexborNode") -> None:
        for node, leaving in _steps(root, self._descend):
            if leaving:
                self._leave(node)

    def _descend(self, node: "LexborNode") -> bool:
        """Take in a node; say whether its children are to be walked."""
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
    """Each node when it is left; `descend` decides on entering. Without recursion: trees may be 2,000 deep."""
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
    """Cells of a table that holds values; none when it only arranges the page."""
    rows = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in table.css("tr")]
    if len(rows) < 2 or max(map(len, rows)) < 2 or any(node.mem_id != table.mem_id for node in table.css(_LAYOUT)):
        return None
    return [[_flat(cell) for cell in row] for row in rows]


def _flat(node: "LexborNode") -> str:
    return one_line(node.text(separator=" "))
