"""Sheets of an XLSX that kreuzberg skips without a word: those whose cells are spread over more than 100,000 rows.

One stray value at the bottom of a sheet is enough for that. Cells are streamed, and given row by row without the empty ones
between them. Dates are the numbers that Excel keeps.
"""

from collections.abc import Collection, Iterator
from xml.parsers import expat

from penstock.errors import Corrupt
from penstock.extraction.draft import Allowance, Draft
from penstock.extraction.office.package import Package
from penstock.extraction.office.related import relations
from penstock.extraction.office.xmltree import local, parse_xml, safe_parser
from penstock.extraction.reading import Page

_LARGEST = 64 * 2**20
_BOOK = "xl/workbook.xml"
_STRINGS = "xl/sharedStrings.xml"


def skipped_sheets(package: Package, known: Collection[int], allowance: Allowance) -> Iterator[Page]:
    """A page for each sheet that has cells and is not among the known ones."""
    strings: list[str] | None = None
    for number, (name, part) in enumerate(_sheets(package), 1):
        if number in known or part not in package:
            continue
        rows = list(_Cells(package, part).rows())
        if strings is None and any(shared for row in rows for _, shared in row):
            strings = list(_Strings(package).texts())
        draft = Draft(allowance)
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


class _Streamed:
    """A part that goes through the parser piece by piece; what is broken ends it."""

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


class _Cells(_Streamed):
    """Rows of (value, whether it is the number of a shared string)."""

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


class _Strings(_Streamed):
    """The strings that cells refer to by number."""

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
