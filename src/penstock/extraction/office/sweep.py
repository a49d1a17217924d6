"""The text that a reader has left out of a document whose parts are XML.

Every paragraph of every part is compared with what was read: one that has words which the reading lacks is missing. Headers
that repeat on all pages are found once; text that stands twice in a file, for old programs, is not found, because it was read.
Parts are streamed, never kept as a tree. `collect` comes before the reader: it refuses the nesting that overruns a reader's
stack.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.parsers import expat

from penstock.errors import Corrupt, Suspicious, TooMuch
from penstock.extraction.office.package import Package
from penstock.extraction.office.xmltree import DEEPEST, local, safe_parser, squeeze
from penstock.extraction.reading import Page

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
_PARAGRAPHS = frozenset(["p", "h", "si", "is", "comment", "threadedComment", "pt"])
_TEXT = frozenset(["t", "v", "text"])
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " ", "noBreakHyphen": "-", "oMath": " "}
_FIELDS = frozenset(["page-number", "page-count", "date", "time", "sheet-name", "file-name", "title"])
_SKIPPED = frozenset(
    ["instrText", "delText", "Fallback", "rPh", "tracked-changes", "automatic-styles", "bibliography-source",
     "table-of-content-source", "illustration-index-source", "table-index-source", "alphabetical-index-source",
     "user-index-source"]
)  # fmt: skip
_FIELD = "\0"  # in the place of a field


def collect(package: Package, *, cells: bool) -> list[str]:
    """All paragraphs of the parts that readers overlook; with `cells`, of all."""
    found: dict[str, None] = {}
    for name in sorted(package.names):
        if _ASIDE.search(name) or (cells and _CELLS.search(name)):
            for paragraph in _paragraphs_of(package, name):
                found.setdefault(paragraph)
    return list(found)


def missing(collected: Iterable[str], pages: Sequence[Page]) -> Iterator[str]:
    """Paragraphs with words that are not on the pages."""
    known = set(_WORD.findall("\n".join(page.text for page in pages).lower()))
    return (paragraph for paragraph in collected if not known.issuperset(_WORD.findall(paragraph.lower())))


def _paragraphs_of(package: Package, name: str) -> Iterator[str]:
    collector = Collector(name, opendocument=name.endswith(("content.xml", "styles.xml")))
    try:
        for piece in package.pieces(name):
            collector.parser.Parse(piece)
            yield from collector.take()
    except (expat.ExpatError, LookupError, ValueError, Corrupt, TooMuch):
        return  # the reader has read it, or says why not
    yield from collector.take()


class Collector:
    """Texts of paragraphs; one inside of another one is a paragraph of its own."""

    def __init__(self, part: str, *, opendocument: bool) -> None:
        self.parser = safe_parser(part)
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self._part = part
        self._opendocument = opendocument
        self._tags: list[str] = []
        self._skipped = 0
        self._open: list[list[str]] = []
        self._done: list[str] = []

    def take(self) -> Iterator[str]:
        """What has come to its end since the last time."""
        done, self._done = self._done, []
        for text in done:
            # "Page 1 of 99": a header or footer that the program fills in
            if not (_FIELD in text and self._part == "styles.xml") and (line := squeeze(text.replace(_FIELD, " "))):
                yield line

    def _start(self, name: str, _: dict[str, str]) -> None:
        tag = local(name)
        if len(self._tags) >= DEEPEST:
            raise Suspicious(f"Its part {self._part!r} nests more than {DEEPEST} elements into each other.")
        self._tags.append(tag)
        self._skipped += tag in _SKIPPED
        if self._skipped:
            return
        if tag in _PARAGRAPHS:
            self._open.append([])
        elif self._open and tag in _BREAKS:
            self._open[-1].append(_BREAKS[tag])
        elif self._open and tag in _FIELDS:
            self._open[-1].append(_FIELD)

    def _end(self, _: str) -> None:
        tag = self._tags.pop()
        if tag in _PARAGRAPHS and not self._skipped:
            self._done.append("".join(self._open.pop()))
        self._skipped -= tag in _SKIPPED

    def _characters(self, text: str) -> None:
        if self._open and not self._skipped and (self._opendocument or self._tags[-1] in _TEXT):
            self._open[-1].append(text)
