"""Reads a PDF: text by page in reading order, headings, notes and form fields; scanned pages are left to the OCR.

The number of pages is checked before any of them is read. A page that cannot be read is a gap. Reading takes two passes,
because only the whole document shows whether a hyphen at the end of a line belongs to its word, and which size is that of a
heading. Headings come from the outline (the bookmarks), else from lines that are clearly larger than the body.
"""

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, raw  # type: ignore[import-untyped]

from penstock.errors import Corrupt, TooMuch
from penstock.extraction.pdf.file import open_pdf, refuse_bombs
from penstock.extraction.pdf.text import (
    PdfLine,
    body_size,
    compose,
    compounds,
    decoded,
    join_hyphenated,
    order,
    read_lines,
)
from penstock.extraction.result import ExtractedDocument, Gap, Heading, Page

# -- headings -------------------------------------------------------------------------------------------------------------

MOST_BOOKMARKS = 5_000
LONGEST_TITLE = 200  # characters of a title
LARGER = 1.15  # times the size of the body
_NUMBERING = r"(?:(?:chapter|section|part|appendix)\s+)?(?:[\dA-Z]{1,3}(?:\.\d{1,3})*[.):]?\s+)?"

Outline = Mapping[int, Sequence[tuple[int, str]]]  # page number: (level, title)


def read_outline(document: PdfDocument) -> Outline:
    entries: dict[int, list[tuple[int, str]]] = {}
    for bookmark in islice(document.get_toc(), MOST_BOOKMARKS):
        title = decoded(bookmark.get_title)[:LONGEST_TITLE]
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


def levels(lines: Sequence[PdfLine], body: float) -> dict[float, int]:
    """The sizes of headings, the largest first; more than six are decoration."""
    sizes = sorted({round(line.size * 2) / 2 for line in lines if _stands_out(line, body)}, reverse=True)
    return {size: level for level, size in enumerate(sizes[:6], 1)}


def set_larger(
    lines: Sequence[PdfLine], starts: Sequence[int], body: float, ranks: Mapping[float, int]
) -> list[Heading]:
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
            headings[-1] = Heading(last.start, last.level, f"{last.title} {line.text}"[:LONGEST_TITLE])
        else:
            headings.append(Heading(start, level, line.text))
            before = size
    return headings


def drop_running(headings: Mapping[int, list[Heading]]) -> dict[int, list[Heading]]:
    """Drop headings that repeat on page after page, apart from numbers: the name of a report or chapter."""
    pages = Counter(title for found in headings.values() for title in {_unnumbered(heading) for heading in found})
    most = max(2, len(headings) // 4)
    return {
        number: [heading for heading in found if pages[_unnumbered(heading)] <= most]
        for number, found in headings.items()
    }


def _unnumbered(heading: Heading) -> str:
    return re.sub(r"\d+", "", heading.title).strip().lower()


def _stands_out(line: PdfLine, body: float) -> bool:
    return (
        min(line.size, line.last_size) >= LARGER * body > 0
        and len(line.text) <= LONGEST_TITLE
        and sum(letter.isalpha() for letter in line.text) >= 3
        and not line.text.endswith((".", ",", ";"))
    )


# -- notes: stamps, free text, comments, the values of form fields ----------------------------------------------------------

MOST = 2_000  # annotations of a page
LONGEST_NOTE = 100_000  # characters of one


def read_notes(page: PdfPage) -> tuple[list[str], bool]:
    """The texts, in the order of the file; and whether flattening the page would show something."""
    notes, visible = [], False
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), MOST)):
        with _annotation(page, index) as annotation:
            if annotation:
                notes.append(_text(annotation))
                visible = visible or bool(raw.FPDFAnnot_HasKey(annotation, b"AP"))
    return [note for note in notes if note], visible


def flatten(page: PdfPage) -> bool:
    """Whether the page, when it is loaded again, has the looks of its annotations among its own."""
    return bool(raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS)


def without_repeated(notes: list[str], text: str) -> list[str]:
    """The notes whose text is not on the page anyway."""
    known = " ".join(text.split())
    return [note for note in dict.fromkeys(" ".join(note.split()) for note in notes) if note not in known]


@contextmanager
def _annotation(page: PdfPage, index: int) -> Iterator[Any]:
    annotation = raw.FPDFPage_GetAnnot(page.raw, index)
    try:
        yield annotation
    finally:
        if annotation:
            raw.FPDFPage_CloseAnnot(annotation)


def _text(annotation: Any) -> str:
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind in {raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_TEXT}:
        return _value(annotation, b"Contents")
    return _value(annotation, b"V") if kind == raw.FPDF_ANNOT_WIDGET else ""


def _value(annotation: Any, key: bytes) -> str:
    if raw.FPDFAnnot_GetValueType(annotation, key) != raw.FPDF_OBJECT_STRING:
        return ""  # a check box has a name there
    size = min(raw.FPDFAnnot_GetStringValue(annotation, key, None, 0), 2 * LONGEST_NOTE)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size)
    text = bytes(memoryview(buffer)).decode("utf-16-le", "replace").split("\0", 1)[0]
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


# -- scans: pages that only OCR can read, or whose letters mean nothing -----------------------------------------------------

FEW = 60  # letters and digits that a stamp or a page number may have
COVERED = 0.5  # of the page, by images
GARBAGE = 0.3  # share of characters that mean nothing
DRAWN = 60  # segments of paths that may be letters; a frame or a table's lines have fewer
MOST_OBJECTS = 5_000
DEEPEST = 4  # forms in forms
_SENSELESS = re.compile(r"[\ufffd\ue000-\uf8ff]")


def is_scan(page: PdfPage, text: str) -> bool:
    if garbled(text):
        return True
    letters = sum(character.isalnum() for character in text[: 10 * FEW])
    if letters > FEW:
        return False
    covered, images, segments = _measure(page)
    return covered >= COVERED if letters else images > 0 or segments >= DRAWN


def garbled(text: str) -> bool:
    """Whether private codes and replacement characters stand for words, as with fonts without a table of their letters."""
    return len(_SENSELESS.findall(text)) > GARBAGE * len(text)


def _measure(page: PdfPage) -> tuple[float, int, int]:
    """The share of the page under images, their number, and the segments of paths."""
    width, height = page.get_size()
    area, images, segments = 0.0, 0, 0
    for thing, kind in islice(_objects(page), MOST_OBJECTS):
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            images += 1
            area += _area(thing)
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            segments += max(raw.FPDFPath_CountSegments(thing), 0)
    return area / max(width * height, 1.0), images, segments


def _objects(page: PdfPage) -> Iterator[tuple[Any, int]]:
    for index in range(raw.FPDFPage_CountObjects(page.raw)):
        thing = raw.FPDFPage_GetObject(page.raw, index)
        yield from _within(thing, DEEPEST)


def _within(thing: Any, depth: int) -> Iterator[tuple[Any, int]]:
    kind = raw.FPDFPageObj_GetType(thing)
    if kind != raw.FPDF_PAGEOBJ_FORM:
        yield thing, kind
    elif depth:
        for index in range(raw.FPDFFormObj_CountObjects(thing)):
            yield from _within(raw.FPDFFormObj_GetObject(thing, index), depth - 1)


def _area(thing: Any) -> float:
    """In points; inside of a form in the form's own units, which are nearly always the same."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not raw.FPDFPageObj_GetBounds(thing, left, bottom, right, top):
        return 0.0
    return abs(right.value - left.value) * abs(top.value - bottom.value)


# -- the document -----------------------------------------------------------------------------------------------------------

MOST_GAPS = 20  # listed one by one
_FACTS = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "created"}


@dataclass(slots=True)
class _Sheet:
    """A page between the two passes."""

    number: int
    lines: list[PdfLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_pdf(file: BinaryIO, arguments: Mapping[str, Any]) -> ExtractedDocument:
    limits = arguments["limits"]
    with open_pdf(file) as document:
        if len(document) > limits["pages"]:
            raise TooMuch(f"This PDF has {len(document):,} pages; limits.pages allows {limits['pages']:,}.")
        refuse_bombs(file, len(document))
        sheets, scanned, gaps = _read_sheets(document, limits["characters"])
        outline, title, facts = read_outline(document), *_describe(document)
    if not arguments.get("ocr", True):
        gaps += [Gap(number, "this page is a scan, and the OCR is off") for number in scanned]
        scanned = []
    return ExtractedDocument("application/pdf", _compose(sheets, outline), scanned, title, facts, shorten(gaps))


def _read_sheets(document: PdfDocument, most: int) -> tuple[list[_Sheet], list[int], list[Gap]]:
    sheets: list[_Sheet] = []
    scanned: list[int] = []
    gaps: list[Gap] = []
    for number in range(1, len(document) + 1):
        try:
            sheet = _read_sheet(document, number)
        except PdfiumError:
            gaps.append(Gap(number, "this page is damaged and cannot be read"))
            continue
        if sheet is None:
            scanned.append(number)
            continue
        sheets.append(sheet)
        most -= sum(len(line.text) for line in sheet.lines) + sum(map(len, sheet.notes))
        if most < 0:
            raise TooMuch("This PDF has more text than limits.characters allows.")
        if not sheet.lines and not sheet.notes:
            gaps.append(Gap(number, "this page has no text"))
    if not sheets and not scanned:
        raise Corrupt("This PDF is damaged: none of its pages can be read.")
    return sheets, scanned, gaps


def _read_sheet(document: PdfDocument, number: int) -> _Sheet | None:
    """None for a scan."""
    page = document[number - 1]
    try:
        notes, visible = read_notes(page)
        if visible and flatten(page):
            page.close()
            page = document[number - 1]  # what was flattened is there only when the page is loaded again
        with closing(page.get_textpage()) as text:
            lines = read_lines(text)
        drawn = "\n".join(line.text for line in lines)
        return None if is_scan(page, drawn) else _Sheet(number, order(lines), without_repeated(notes, drawn))
    finally:
        page.close()


def _describe(document: PdfDocument) -> tuple[str, dict[str, str]]:
    values = {key: decoded(partial(document.get_metadata_value, key)) for key in ("Title", *_FACTS)}
    facts = {name: values[key] for key, name in _FACTS.items() if values[key]}
    if attachments := document.count_attachments():
        facts["attachments"] = str(attachments)
    return values["Title"], facts


def _compose(sheets: list[_Sheet], outline: Outline) -> list[Page]:
    lines = [line for sheet in sheets for line in sheet.lines]
    known = compounds(line.text for line in lines)
    for line in lines:
        line.text = join_hyphenated(line.text, known)
    body = body_size(lines)
    ranks = levels(lines, body)
    composed = [(sheet, *compose(sheet.lines)) for sheet in sheets]
    marked: dict[int, list[Heading]] = {
        sheet.number: outlined(text, outline.get(sheet.number, ())) for sheet, text, _ in composed
    }
    if not any(marked.values()):
        larger = {sheet.number: set_larger(sheet.lines, starts, body, ranks) for sheet, _, starts in composed}
        marked = drop_running(larger)
    return [
        Page(sheet.number, "\n\n".join(filter(None, [text, *sheet.notes])), marked[sheet.number])
        for sheet, text, _ in composed
    ]


def shorten(gaps: list[Gap]) -> list[Gap]:
    """A PDF that lies about its number of pages must not list thousands of gaps."""
    if len(gaps) <= MOST_GAPS:
        return gaps
    return [*gaps[:MOST_GAPS], Gap(None, f"{len(gaps) - MOST_GAPS:,} more pages have no text or cannot be read")]
