"""Splits pages into chunks: pieces of text that are embedded, found and shown as one.

A chunk is exactly `page.text[start:stop]`. It ends at a heading, a paragraph, a sentence or a word, in this order of
preference. One that begins inside a table repeats the table's header. The splitter's time grows with the square of a text
without breaks, so long parts are cut into windows first, at paragraphs if possible.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.extraction.result import Page, Table

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

WINDOW = 32_768
_LONGEST_HEADING = 300


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a page; `text` begins with the header of the table in which the piece begins, if any."""

    page: int
    start: int
    stop: int
    text: str
    heading: str


def split_pages(pages: Sequence[Page], *, size: int, overlap: int, structured: bool) -> list[Chunk]:
    """Chunks of at most `size` characters (and a table's header), in order; `structured` is for Markdown and its like."""
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    splitter = (MarkdownSplitter if structured else TextSplitter)(size, overlap=min(overlap, size - 1))
    return [chunk for page in pages for chunk in _split_page(page, splitter, size)]


def _split_page(page: Page, splitter: "TextSplitter | MarkdownSplitter", size: int) -> Iterator[Chunk]:
    borders, paths = _outline(page)
    tables = sorted((table for table in page.tables if table.header), key=lambda table: table.start)
    starts = [table.start for table in tables]
    for begin, end in _parts(page.text, borders, size):
        for start, stop in _pieces(page.text, begin, end, splitter, size):
            before = bisect_right(starts, start) - 1
            header = _repeated_header(tables[before], start, size) if before >= 0 else ""
            place = bisect_right(borders, start) - 1
            yield Chunk(page.number, start, stop, header + page.text[start:stop], paths[place] if place >= 0 else "")


def _outline(page: Page) -> tuple[list[int], list[str]]:
    """The offsets of headings, and the path to each: `Chapter › Section`."""
    borders: list[int] = []
    paths: list[str] = []
    above: list[tuple[int, str]] = []
    for heading in sorted(page.headings, key=lambda heading: heading.start):
        above = [(level, title) for level, title in above if level < heading.level]
        above.append((heading.level, heading.title))
        borders.append(heading.start)
        paths.append(" › ".join(title for _, title in above)[-_LONGEST_HEADING:])
    return borders, paths


def _parts(text: str, borders: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """From heading to heading; short parts that follow each other stay together as long as they fit."""
    begin = end = 0
    for border in [*borders, len(text)]:
        if border - begin > size and end > begin:
            yield begin, end
            begin = end
        end = max(end, border)
    if end > begin:
        yield begin, end


def _pieces(
    text: str, begin: int, end: int, splitter: "TextSplitter | MarkdownSplitter", size: int
) -> Iterator[tuple[int, int]]:
    if end - begin <= size:
        part = text[begin:end]
        stripped = part.strip()
        if stripped:
            start = begin + len(part) - len(part.lstrip())
            yield start, start + len(stripped)
        return
    while begin < end:
        cut = _window_end(text, begin, end, size)
        for offset, piece in splitter.chunk_indices(text[begin:cut]):
            if piece.strip():
                yield begin + offset, begin + offset + len(piece)
        begin = cut


def _window_end(text: str, begin: int, end: int, size: int) -> int:
    """A wide window where there are lines, a narrow one where there are none."""
    wide, narrow = max(WINDOW, 4 * size), max(WINDOW // 4, 2 * size)
    far = min(end, begin + wide)
    if text.count("\n", begin, far) >= (far - begin) // narrow:
        return end if far == end else _last_break(text, begin + wide // 2, far, ("\n\n", "\n", ". ", " "))
    far = min(end, begin + narrow)
    return end if far == end else _last_break(text, begin + narrow // 2, far, ("\n", ". ", " "))


def _last_break(text: str, begin: int, end: int, marks: Sequence[str]) -> int:
    for mark in marks:
        cut = text.rfind(mark, begin, end)
        if cut > 0:
            return cut + len(mark)
    return end


def _repeated_header(table: Table, start: int, size: int) -> str:
    """A header longer than half a chunk is cut, or there would be nothing but headers."""
    inside = table.start + len(table.header) <= start < table.stop
    return table.header[: size // 2] + "\n" if inside else ""
