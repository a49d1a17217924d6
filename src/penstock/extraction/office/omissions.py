"""Finds the text that kreuzberg omits from a document whose parts are XML.

`collect` takes every paragraph of the parts that are affected, before kreuzberg reads the file, and refuses nesting that
overruns its stack. `missing` then returns the paragraphs with words that are not in its result: headers that repeat on all
pages once, and text that is in the file twice (for old programs) not at all. `skipped_sheets` reads the sheets of an XLSX that
kreuzberg skips, those with cells in more than 100,000 rows. Parts are streamed, never kept as a tree.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from xml.parsers import expat

from penstock.errors import Corrupt, Suspicious, TooMuch
from penstock.extraction.office.package import Package, relations
from penstock.extraction.office.xmltree import DEEPEST, local, parse_xml, safe_parser, squeeze
from penstock.extraction.result import Page, PageBuilder, TextAllowance

# -- skipped sheets -------------------------------------------------------------------------------------------------------

_LARGEST = 64 * 2**20
_BOOK = "xl/workbook.xml"
_STRINGS = "xl/sharedStrings.xml"


def skipped_sheets(package: Package, known: Collection[int], allowance: TextAllowance) -> Iterator[Page]:
    """A page for each sheet that has cells and is not in `known`."""
    strings: list[str] | None = None
    for number, (name, part) in enumerate(_sheets(package), 1):
        if number in known or part not in package:
            continue
        rows = list(_Cells(package, part).rows())
        if strings is None and any(shared for row in rows for _, shared in row):
            strings = list(_Strings(package).texts())
        draft = PageBuilder(allowance)
        draft.heading(name, 1)
        before = draft.size
        draft.table([_resolved(value, strings or []) if shared else value for value, shared in row] for row in rows)
        if draft.size > before:
            yield draft.page(number)


def _sheets(package: Package) -> list[tuple[str, str]]:
    """Names and parts in the order of the book."""
    if _BOOK not in package:
        return []
    try:
        targets = {relation.id: relation.target for relation in relations(package, _BOOK)}
        book = parse_xml(package.read(_BOOK, _LARGEST), _BOOK)
    except Corrupt:
        return []
    found = [node.attributes for node in book.walk() if node.tag == "sheet"]
    return [(attributes.get("name", ""), targets.get(attributes.get("r:id", ""), "")) for attributes in found]


def _resolved(value: str, strings: list[str]) -> str:
    return strings[int(value)] if value.isdecimal() and len(value) < 10 and int(value) < len(strings) else ""


class _PartParser:
    """Parses a part piece by piece; an error ends it."""

    def __init__(self, package: Package, part: str) -> None:
        self._pieces = package.pieces(part) if part in package else iter(())
        self._parser = safe_parser(part)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._text: list[str] = []
        self._inside: list[str] = []

    def _steps(self) -> Iterator[None]:
        try:
            for piece in self._pieces:
                self._parser.Parse(piece)
                yield
        except (expat.ExpatError, LookupError, ValueError, Corrupt):
            return

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._inside.append(local(name))

    def _end(self, _: str) -> None:
        self._inside.pop()

    def _characters(self, text: str) -> None:
        if self._inside[-1] in ("t", "v") and "rPh" not in self._inside:
            self._text.append(text)


class _Cells(_PartParser):
    """Rows of (value, whether it is the index of a shared string)."""

    def __init__(self, package: Package, part: str) -> None:
        super().__init__(package, part)
        self._shared = False
        self._row: list[tuple[str, bool]] = []
        self._done: list[list[tuple[str, bool]]] = []

    def rows(self) -> Iterator[list[tuple[str, bool]]]:
        for _ in self._steps():
            done, self._done = self._done, []
            yield from done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        super()._start(name, attributes)
        if self._inside[-1] == "c":
            self._text.clear()
            self._shared = attributes.get("t") == "s"

    def _end(self, _: str) -> None:
        tag = self._inside.pop()
        if tag == "c" and (value := "".join(self._text).strip()):
            self._row.append((value, self._shared))
        elif tag == "row" and self._row:
            self._done.append(self._row)
            self._row = []


class _Strings(_PartParser):
    """The strings that cells refer to by index."""

    def __init__(self, package: Package) -> None:
        super().__init__(package, _STRINGS)
        self._done: list[str] = []

    def texts(self) -> Iterator[str]:
        for _ in self._steps():
            done, self._done = self._done, []
            yield from done

    def _end(self, _: str) -> None:
        if self._inside.pop() == "si":
            self._done.append("".join(self._text))
            self._text.clear()


# -- omitted paragraphs -----------------------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")
# Parts from which kreuzberg omits text.
_ASIDE = re.compile(
    r"word/(?:document|footnotes|endnotes|comments|header|footer)\d*\.xml$"
    r"|(?:word|xl)/(?:charts/chart|diagrams/data|drawings/drawing)\w*\.xml$|xl/(?:comments|threadedcomments)[\w/]*\.xml$"
    r"|(?:Object[^/]*/)?content\.xml$|^styles\.xml$",
    re.IGNORECASE,
)
# Parts that kreuzberg reads well. Slow to read here, so only for a damaged file.
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
    """All paragraphs of the parts from which text is omitted; with `cells`, also those of sheets."""
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
    collector = XmlTextCollector(name, opendocument=name.endswith(("content.xml", "styles.xml")))
    try:
        for piece in package.pieces(name):
            collector.parser.Parse(piece)
            yield from collector.take()
    except (expat.ExpatError, LookupError, ValueError, Corrupt, TooMuch):
        return  # the reader has read it, or reports why not
    yield from collector.take()


class XmlTextCollector:
    """Collects the texts of paragraphs; one inside another is a separate paragraph."""

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
        """The paragraphs that have ended since the last call."""
        done, self._done = self._done, []
        for text in done:
            # "Page 1 of 99": a header or footer that the program fills in
            if not (_FIELD in text and self._part == "styles.xml") and (line := squeeze(text.replace(_FIELD, " "))):
                yield line

    def _start(self, name: str, _: dict[str, str]) -> None:
        tag = local(name)
        if len(self._tags) >= DEEPEST:
            raise Suspicious(f"The part {self._part!r} nests more than {DEEPEST} elements into each other.")
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
