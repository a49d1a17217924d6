"""Where the parts of a PDF begin: by its outline (the bookmarks), else by what is set clearly larger than the body."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

from penstock.extraction.pdf.text import Line, said
from penstock.extraction.reading import Heading

MOST_BOOKMARKS = 5_000
LONGEST = 200  # characters of a title
LARGER = 1.15  # times the size of the body
_NUMBERING = r"(?:(?:chapter|section|part|appendix)\s+)?(?:[\dA-Z]{1,3}(?:\.\d{1,3})*[.):]?\s+)?"

Outline = Mapping[int, Sequence[tuple[int, str]]]  # page number: (level, title)


def read_outline(document: PdfDocument) -> Outline:
    entries: dict[int, list[tuple[int, str]]] = {}
    for bookmark in islice(document.get_toc(), MOST_BOOKMARKS):
        title = said(bookmark.get_title)[:LONGEST]
        destination = bookmark.get_dest()
        index = destination.get_index() if destination is not None else None
        if title and index is not None:
            entries.setdefault(index + 1, []).append((min(bookmark.level + 1, 9), title))
    return entries


def outlined(text: str, entries: Sequence[tuple[int, str]]) -> list[Heading]:
    """The titles of bookmarks in the text of the page they lead to, in its order."""
    found: dict[int, Heading] = {}
    for level, title in entries:
        words = r"\s+".join(re.escape(word) for word in title.split())
        match = re.search(rf"^{_NUMBERING}{words}", text, re.IGNORECASE | re.MULTILINE)
        if match:
            found.setdefault(match.start(), Heading(match.start(), level, title))
    return [found[start] for start in sorted(found)]


def levels(lines: Sequence[Line], body: float) -> dict[float, int]:
    """The sizes of headings, the largest first; more than six are decoration."""
    sizes = sorted({round(line.size * 2) / 2 for line in lines if _stands_out(line, body)}, reverse=True)
    return {size: level for level, size in enumerate(sizes[:6], 1)}


def set_larger(lines: Sequence[Line], starts: Sequence[int], body: float, ranks: Mapping[float, int]) -> list[Heading]:
    """Lines larger than the body; those of one size that follow each other are one heading."""
    headings: list[Heading] = []
    before: float | None = None
    for line, start in zip(lines, starts, strict=True):
        size = round(line.size * 2) / 2
        level = ranks.get(size) if _stands_out(line, body) else None
        if level is None:
            before = None
        elif before == size:
            last = headings[-1]
            headings[-1] = Heading(last.start, last.level, f"{last.title} {line.text}"[:LONGEST])
        else:
            headings.append(Heading(start, level, line.text))
            before = size
    return headings


def drop_running(headings: Mapping[int, list[Heading]]) -> dict[int, list[Heading]]:
    """Without what stands on page after page, but for the page number: the name of a report or chapter."""
    pages = Counter(title for found in headings.values() for title in {_unnumbered(heading) for heading in found})
    most = max(2, len(headings) // 4)
    return {
        number: [heading for heading in found if pages[_unnumbered(heading)] <= most]
        for number, found in headings.items()
    }


def _unnumbered(heading: Heading) -> str:
    return re.sub(r"\d+", "", heading.title).strip().lower()


def _stands_out(line: Line, body: float) -> bool:
    return (
        min(line.size, line.last_size) >= LARGER * body > 0
        and len(line.text) <= LONGEST
        and sum(letter.isalpha() for letter in line.text) >= 3
        and not line.text.endswith((".", ",", ";"))
    )
