"""The result of reading a document: pages of text with headings and tables, gaps, and metadata.

`ExtractedDocument` travels from a sandbox to its parent as JSON, and `decode` trusts nothing of it. All readers write pages
through `PageBuilder`, so that offsets are right by construction, blank lines are alike in all formats, and a text beyond the
limit is refused before memory runs out.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, TypeVar

from penstock.errors import Corrupt, TooMuch
from penstock.text import storable

T = TypeVar("T")

MARKS = 20_000  # headings, or tables, of a page: the parent could not handle a million
# PostgreSQL or a screen cannot show these, and no text needs them; a soft hyphen and a BOM would split words for the search.
_DROPPED = dict.fromkeys([*range(9), *range(14, 32), 127, 0xAD, 0xFEFF], None) | dict.fromkeys(
    [11, 12, 0x85, 0x2028, 0x2029], "\n"
)
_BLANK_LINES = re.compile(r"\n[ \t\xa0]*\n(?:[ \t\xa0]*\n)+")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading, and the offset in the page's text where its part begins."""

    start: int
    level: int  # 1 is the highest
    title: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table in a page's text, one row per line; its header is repeated in each chunk of it."""

    start: int
    stop: int
    header: str


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page, of one slide, of one sheet; unpaged formats are one page."""

    number: int  # from 1 on
    text: str
    headings: Sequence[Heading] = ()
    tables: Sequence[Table] = ()
    ocr: float | None = None  # confidence (0 to 1) of a page that OCR has read


@dataclass(frozen=True, slots=True)
class Gap:
    """A part that could not be read, and the reason; without a page, it concerns the whole document."""

    page: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """A document as text. `scanned` are the numbers of pages that only OCR can read; `pages` lacks them."""

    media_type: str
    pages: Sequence[Page] = ()
    scanned: Sequence[int] = ()
    title: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)  # author, created, … as the file has them
    gaps: Sequence[Gap] = ()

    def encode(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def decode(cls, value: object) -> "ExtractedDocument":
        """Check and decode what a sandbox has sent."""
        fields = _dict(value)
        return cls(
            media_type=_text(fields.get("media_type"), 200),
            pages=[decode_page(page) for page in _list(fields.get("pages"))],
            scanned=[_whole(number) for number in _list(fields.get("scanned"))],
            title=_text(fields.get("title"), 1000),
            facts={_text(key, 100): _text(fact, 1000) for key, fact in _dict(fields.get("facts")).items()},
            gaps=[decode_gap(gap) for gap in _list(fields.get("gaps"))],
        )


def decode_page(value: object) -> Page:
    fields = _dict(value)
    text = _text(fields.get("text"))
    size = len(text)
    return Page(
        number=_whole(fields.get("number")),
        text=text,
        headings=[
            Heading(_whole(h.get("start"), size), _whole(h.get("level"), 9), _text(h.get("title"), 1000))
            for h in map(_dict, _list(fields.get("headings"))[:MARKS])
        ],
        tables=[
            Table(_whole(t.get("start"), size), _whole(t.get("stop"), size), _text(t.get("header"), 10_000))
            for t in map(_dict, _list(fields.get("tables"))[:MARKS])
        ],
        ocr=_maybe(fields.get("ocr"), _fraction),
    )


def decode_gap(value: object) -> Gap:
    fields = _dict(value)
    return Gap(_maybe(fields.get("page"), _whole), _text(fields.get("reason"), 1000))


def _text(value: object, most: int | None = None) -> str:
    if not isinstance(value, str):
        raise Corrupt("The reader of this format returned a value that is not text.")
    return storable(value, " ")[:most]


def _whole(value: object, most: int = 2**31 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Corrupt("The reader of this format returned a number that cannot be.")
    return value


def _fraction(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise Corrupt("The reader of this format returned a number that cannot be.")
    return float(value)


def _maybe(value: object, read: Callable[[object], T]) -> T | None:
    return None if value is None else read(value)


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):  # a tuple comes from a reader in this process
        raise Corrupt("The reader of this format returned a value that is not a list.")
    return value


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Corrupt("The reader of this format returned a value without named fields.")
    return value


# -- text -----------------------------------------------------------------------------------------------------------------


def whole(file: BinaryIO, arguments: Mapping[str, Any]) -> bytes:
    """All bytes of a text file; a text of `limits.characters` has at most four bytes for each."""
    most = 4 * int(arguments.get("limits", {}).get("characters", 50_000_000))
    size = file.seek(0, 2)
    if size > most:
        raise TooMuch(f"The text has {size:,} bytes, more than {most // 4:,} characters (limits.characters) can have.")
    file.seek(0)
    return file.read()


def clean(text: str) -> str:
    """One kind of line end, no control characters."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() and text.isprintable() else text.translate(_DROPPED)


def one_line(text: str) -> str:
    if text.isalnum() or not text:
        return text  # most cells of tables
    return " ".join(clean(text).split())


def _tidy(text: str) -> str:
    text = clean(text).strip()
    return _BLANK_LINES.sub("\n\n", text) if "\n" in text else text


def refuse_pages(count: int, arguments: Mapping[str, Any]) -> None:
    """Raise TooMuch for more than `limits.pages`."""
    most = int(arguments.get("limits", {}).get("pages", 5_000))
    if count > most:
        raise TooMuch(f"The document has more than {most:,} pages, the limit (limits.pages).")


class TextAllowance:
    """The number of characters that a document may still have, over all of its pages."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.most = int(arguments.get("limits", {}).get("characters", 50_000_000))
        self.left = self.most

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise TooMuch(
                f"The document has more than {self.most:,} characters of text, the limit (limits.characters)."
            )


class PageBuilder:
    """Builds the text of one page, and records where headings and tables begin."""

    def __init__(self, allowance: TextAllowance, *, above: int = 0) -> None:
        self._allowance = allowance
        self._above = above  # number of top levels of headings that the document does not use
        self._parts: list[str] = []
        self._size = 0
        self._headings: list[Heading] = []
        self._tables: list[Table] = []

    @property
    def size(self) -> int:
        return self._size

    def _append(self, text: str) -> None:
        self._allowance.spend(len(text))
        self._parts.append(text)
        self._size += len(text)

    def _separate(self, separator: str) -> None:
        if self._parts:
            self._append(separator)

    def paragraph(self, text: str) -> None:
        """Text with a blank line before it; many blank lines inside become one."""
        text = _tidy(text)
        if text:
            self._separate("\n\n")
            self._append(text)

    def line(self, text: str) -> None:
        """Text on a line of its own, without a blank line before it: a list's item, a field."""
        text = _tidy(text)
        if text:
            self._separate("\n")
            self._append(text)

    def heading(self, text: str, level: int) -> None:
        title = one_line(text)
        if title:
            self._separate("\n\n")
            if len(self._headings) < MARKS:
                self._headings.append(Heading(self._size, max(1, min(level - self._above, 9)), title[:1000]))
            self._append(title)

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Rows as lines `a | b | c`, empty ones left out; the first row with two cells is the header."""
        header, start, lines = "", self._size, 0
        for row in rows:
            cells = [cell if cell.isalnum() else one_line(cell) for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            if not cells:
                continue
            if len(cells) > 50 and cells.count("") > 0.8 * len(cells):
                cells = [cell for cell in cells if cell]  # a stray value in the last of 16,384 columns
            line = " | ".join(cells)
            separator = "\n" if lines else "\n\n" if self._parts else ""
            if not lines or (not header and len(cells) - cells.count("") > 1):
                header, start, lines = line if len(cells) > 1 else "", self._size + len(separator), 1
            else:
                lines += 1
            self._append(separator + line)
        if lines > 1 and len(self._tables) < MARKS:
            self._tables.append(Table(start, self._size, header[:10_000]))

    def page(self, number: int) -> Page:
        return Page(number, "".join(self._parts), headings=self._headings, tables=self._tables)
