"""The text that a reader has left out of a document whose parts are XML.

Every paragraph of every part is compared with what was read: one that has words which the reading lacks is missing. Headers
that repeat on all pages are found once; text that stands twice in a file, for old programs, is not found, because it was
read.
"""

import re
from collections.abc import Iterator, Sequence

from penstock.errors import Corrupt, Encrypted, TooMuch
from penstock.extraction.package import Package
from penstock.extraction.reading import Page
from penstock.extraction.xmltree import Node, parse_xml, squeeze

_WORD = re.compile(r"\w+")
# What readers leave out stands here …
_ASIDE = re.compile(
    r"word/(?:document|footnotes|endnotes|comments|header|footer)\d*\.xml$"
    r"|(?:word|xl)/(?:charts/chart|diagrams/data|drawings/drawing)\w*\.xml$|xl/(?:comments|threadedcomments)[\w/]*\.xml$"
    r"|(?:Object[^/]*/)?content\.xml$|^styles\.xml$",
    re.IGNORECASE,
)
# … and this they read well; it is slow to read here, and only done when nobody else could.
_CELLS = re.compile(r"xl/(?:sharedStrings|worksheets/\w+)\.xml$", re.IGNORECASE)
_PARAGRAPHS = frozenset(["p", "h", "si", "is", "comment", "pt", "text"])
_TEXT = frozenset(["t", "v"])
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " ", "noBreakHyphen": "-"}
_APART = frozenset(["oMath"])
_FIELDS = frozenset(["page-number", "page-count", "date", "time", "sheet-name", "file-name", "title"])
_SKIPPED = frozenset(
    ["instrText", "delText", "Fallback", "rPh", "tracked-changes", "automatic-styles", "bibliography-source",
     "table-of-content-source", "illustration-index-source", "table-index-source", "alphabetical-index-source",
     "user-index-source"]
)  # fmt: skip
_FIELD = "\0"  # in the place of a field
_LARGEST = 64 * 2**20


def missing(package: Package, pages: Sequence[Page]) -> Iterator[str]:
    """Paragraphs with words that are not on the pages, each once."""
    parts = [name for name in package.names if _ASIDE.search(name) or (not pages and _CELLS.search(name))]
    known = set(_WORD.findall("\n".join(page.text for page in pages).lower()))
    given: set[str] = set()
    for name in sorted(parts):
        try:
            root = parse_xml(package.read(name, _LARGEST), name)
        except (Corrupt, Encrypted, TooMuch):
            continue  # the reader has read it, or said why not
        for paragraph in paragraphs(root, opendocument=name.endswith(("content.xml", "styles.xml"))):
            if _FIELD in paragraph and name == "styles.xml":
                continue  # "Page 1 of 99": a header or footer that the program fills in
            words = _WORD.findall(paragraph.lower())
            if paragraph not in given and not known.issuperset(words):
                given.add(paragraph)
                yield squeeze(paragraph.replace(_FIELD, " "))


def paragraphs(root: Node, *, opendocument: bool) -> Iterator[str]:
    """The text of each paragraph, without that of paragraphs inside of it, which come on their own."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.tag in _SKIPPED:
            continue
        inner: list[Node] = []
        if node.tag in _PARAGRAPHS:
            text = squeeze("".join(_text(node, inner, opendocument or node.tag == "text")))
            if text:
                yield text
        else:
            inner = list(node.elements())
        waiting += reversed(inner)


def _text(paragraph: Node, inner: list[Node], opendocument: bool) -> Iterator[str]:
    waiting: list[tuple[Node | str, bool]] = [(child, opendocument) for child in reversed(paragraph.children)]
    while waiting:
        child, counts = waiting.pop()
        if isinstance(child, str):
            if counts:
                yield child
        elif child.tag in _BREAKS:
            yield _BREAKS[child.tag]
        elif child.tag in _FIELDS:
            yield f"{_FIELD}{child.text()}"
        elif child.tag in _PARAGRAPHS and child.tag != "text":
            inner.append(child)
        elif child.tag not in _SKIPPED:
            if child.tag in _APART:
                yield " "
            counts = opendocument or child.tag in _TEXT or counts
            waiting += [(below, counts) for below in reversed(child.children)]
