"""The text of one page while it grows, and where in it headings and tables begin.

All readers write through it, so that offsets are right by construction, blank lines are alike in all formats, and a text
beyond the limit is noticed when it is passed, not when the memory is gone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.errors import TooMuch
from penstock.extraction.reading import MARKS, Heading, Page, Table

# What no text needs and PostgreSQL or a screen cannot bear; a soft hyphen and a BOM would split words for the search.
_DROPPED = dict.fromkeys([*range(9), *range(14, 32), 127, 0xAD, 0xFEFF], None) | {
    11: "\n",
    12: "\n",
    0x85: "\n",
    0x2028: "\n",
    0x2029: "\n",
}
_BLANK_LINES = re.compile(r"\n[ \t\xa0]*\n(?:[ \t\xa0]*\n)+")


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
    """TooMuch for more than `limits.pages`; the sooner it is asked, the better."""
    most = int(arguments.get("limits", {}).get("pages", 5_000))
    if count > most:
        raise TooMuch(f"It has more than {most:,} pages, the limit (limits.pages).")


class Allowance:
    """How many characters a document may still have, over all of its pages."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.most = int(arguments.get("limits", {}).get("characters", 50_000_000))
        self.left = self.most

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise TooMuch(f"It holds more than {self.most:,} characters of text, the limit (limits.characters).")


class Draft:
    """A page that is being written."""

    def __init__(self, allowance: Allowance, *, above: int = 0) -> None:
        self._allowance = allowance
        self._above = above  # levels of headings that are not used
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
