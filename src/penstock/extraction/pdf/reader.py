"""PDF: text by page in reading order, headings, notes and form fields; pages that are scans are left to the OCR.

The number of pages is checked before any of them is read. A page that cannot be read is a gap, the others go on. Reading
takes two passes: whether a hyphen at the end of a line belongs to its word, and which size is a heading's, only the whole
document can tell.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from pypdfium2 import PdfDocument, PdfiumError  # type: ignore[import-untyped]

from penstock.errors import Corrupt, TooMuch
from penstock.extraction.pdf.bombs import refuse_bombs
from penstock.extraction.pdf.file import open_pdf
from penstock.extraction.pdf.headings import Outline, drop_running, levels, outlined, read_outline, set_larger
from penstock.extraction.pdf.hyphens import compounds, mend
from penstock.extraction.pdf.notes import flatten, read_notes, unsaid
from penstock.extraction.pdf.scan import is_scan
from penstock.extraction.pdf.text import Line, body_size, compose, order, read_lines, said
from penstock.extraction.reading import Gap, Heading, Page, Reading

MEDIA_TYPE = "application/pdf"
MOST_GAPS = 20  # named one by one
_FACTS = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "created"}


@dataclass(slots=True)
class _Sheet:
    """A page between the passes."""

    number: int
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_pdf(file: BinaryIO, arguments: Mapping[str, Any]) -> Reading:
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
    return Reading(MEDIA_TYPE, _compose(sheets, outline), scanned, title, facts, shorten(gaps))


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
    """None: it is a scan."""
    page = document[number - 1]
    try:
        notes, visible = read_notes(page)
        if visible and flatten(page):
            page.close()
            page = document[number - 1]  # what was flattened is there only when the page is loaded again
        with closing(page.get_textpage()) as text:
            lines = read_lines(text)
        drawn = "\n".join(line.text for line in lines)
        return None if is_scan(page, drawn) else _Sheet(number, order(lines), unsaid(notes, drawn))
    finally:
        page.close()


def _describe(document: PdfDocument) -> tuple[str, dict[str, str]]:
    values = {key: said(partial(document.get_metadata_value, key)) for key in ("Title", *_FACTS)}
    facts = {name: values[key] for key, name in _FACTS.items() if values[key]}
    if attachments := document.count_attachments():
        facts["attachments"] = str(attachments)
    return values["Title"], facts


def _compose(sheets: list[_Sheet], outline: Outline) -> list[Page]:
    lines = [line for sheet in sheets for line in sheet.lines]
    known = compounds(line.text for line in lines)
    for line in lines:
        line.text = mend(line.text, known)
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
