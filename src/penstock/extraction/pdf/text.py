"""The lines of a PDF page as pdfium finds them, and the text that is made of them.

pdfium gives the text in the order in which it was drawn, which nearly always is the order of reading, columns included.
Only the place and size of a line's first and last character are asked for (half a millisecond per page; every character
would be as expensive as the text itself). They join what pdfium has torn (a word after a superscript), separate
paragraphs, and show when a page was drawn in no order; then the place on the page decides.
"""

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pypdfium2 import PdfTextPage, raw  # type: ignore[import-untyped]

from penstock.extraction.ocr.layout import TextBox, arrange

# -- hyphens at the end of a line: dropped when that is certain, kept when they may belong to the word -----------------------

HYPHEN = "\ufffe"  # pdfium's sign for a hyphen at the end of a line; the line break after it is left out
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_TORN = re.compile(r"([^\W\d_]*)" + HYPHEN + r"([^\W\d_]*)")
_AT_THE_END = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")


def compounds(texts: Iterable[str]) -> frozenset[str]:
    """The words with a hyphen that the document writes in the middle of a line."""
    return frozenset(word.lower() for text in texts if "-" in text for word in _COMPOUND.findall(text))


def join_hyphenated(text: str, known: frozenset[str]) -> str:
    """Join the halves around each `HYPHEN`."""
    if HYPHEN not in text:
        return text

    def joined(match: re.Match[str]) -> str:
        left, right = match.groups()
        sure = bool(left) and right[:1].islower() and f"{left}-{right}".lower() not in known
        return left + right if sure else f"{left}-{right}"

    return _TORN.sub(joined, text)


def join_hyphenated_lines(text: str) -> str:
    """The same for text with lines, as from OCR; joining a word drops its line break."""
    return join_hyphenated(_AT_THE_END.sub(HYPHEN, text), compounds([text]))


# -- lines ----------------------------------------------------------------------------------------------------------------

_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_CLEAN = {
    **dict.fromkeys([*range(32), *range(127, 161), 8232, 8233], " "),
    **_LIGATURES,
    **dict.fromkeys([0xAD, 0x200B, 0xFEFF], ""),  # soft hyphens and nothing wide
    0x02: HYPHEN,  # of older releases of pdfium
}


@dataclass(slots=True)
class PdfLine:
    """A line, or several that a hyphen joins. Sizes and places are in points, y grows upwards."""

    text: str
    left: float
    right: float
    base: float
    last_base: float  # of its last character
    size: float
    last_size: float
    last: int  # the index of its last character
    upright: bool


def read_lines(page: PdfTextPage) -> list[PdfLine]:
    count = raw.FPDFText_CountChars(page.raw)
    if count <= 0:
        return []
    buffer = (ctypes.c_ushort * (count + 1))()
    written = raw.FPDFText_GetText(page.raw, 0, count, buffer)
    text = bytes(memoryview(buffer)[: max(written - 1, 0)]).decode("utf-16-le", "replace")
    lines, start = [], 0
    for piece in text.split("\r\n"):
        clean = " ".join(piece.translate(_CLEAN).split())
        if clean:
            lines.append(_place(page, clean, start, start + len(piece) - 1))
        start += len(piece) + 2
    usual = body_size(lines)
    for line in lines:
        if line.size > usual:  # it may be a heading, or a large initial
            line.last_size, _ = _size(page, line.last)
    return lines


def _place(page: PdfTextPage, text: str, first: int, last: int) -> PdfLine:
    x, base, end = ctypes.c_double(), ctypes.c_double(), raw.FS_RECTF()
    first = raw.FPDFText_GetCharIndexFromTextIndex(page.raw, first)
    last = raw.FPDFText_GetCharIndexFromTextIndex(page.raw, last)
    raw.FPDFText_GetCharOrigin(page.raw, first, x, base)
    left, top = x.value, base.value
    raw.FPDFText_GetLooseCharBox(page.raw, last, end)
    if HYPHEN in text:
        raw.FPDFText_GetCharOrigin(page.raw, last, x, base)
    size, upright = _size(page, first)
    return PdfLine(text, left, end.right, top, base.value, size, size, last, upright)


def _size(page: PdfTextPage, index: int) -> tuple[float, bool]:
    """The visible size: many producers set size 1 and scale by the matrix."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(page.raw, index, matrix)
    scale = (matrix.c**2 + matrix.d**2) ** 0.5 or 1.0
    return raw.FPDFText_GetFontSize(page.raw, index) * scale, matrix.a > 0 and abs(matrix.b) < 0.1 * matrix.a


def order(lines: list[PdfLine]) -> list[PdfLine]:
    """As drawn, unless that jumps back and forth; then by position."""
    if not _placed(lines) or not _jumbled(lines):
        return lines
    placed = [
        (
            TextBox(line.left, -line.base - 0.8 * line.size, line.right, 0.2 * line.size - line.last_base, line.text),
            line,
        )
        for line in lines
    ]
    found = {id(box): line for box, line in placed}
    return [found[id(box)] for block in arrange([box for box, _ in placed]) for row in block for box in row]


def _placed(lines: Sequence[PdfLine]) -> bool:
    """Whether positions can be trusted: turned pages and turned text have theirs in another direction."""
    return bool(lines) and sum(line.upright and line.size > 0 for line in lines) >= 0.9 * len(lines)


def _jumbled(lines: Sequence[PdfLine]) -> bool:
    """Going up is a new column when it also goes right; going up again and again is not."""
    width = max(line.right for line in lines) - min(line.left for line in lines)
    returns = sum(
        line.base > before.last_base + before.size and line.left < before.left + 0.2 * width
        for before, line in pairwise(lines)
    )
    return returns > max(3, 0.1 * len(lines))


def compose(lines: Sequence[PdfLine]) -> tuple[str, list[int]]:
    """The text of a page, and where in it each line begins."""
    placed, parts, starts, size = _placed(lines), [], [], 0
    before: PdfLine | None = None
    for line in lines:
        glue = "" if before is None else _glue(before, line) if placed else "\n"
        starts.append(size + len(glue))
        parts += [glue, line.text]
        size += len(glue) + len(line.text)
        before = line
    return "".join(parts), starts


def _glue(before: PdfLine, line: PdfLine) -> str:
    """The separator of two lines: nothing before a comma of the same row, a space, a line break, a paragraph."""
    drop, size = before.last_base - line.base, max(before.last_size, line.size)
    if abs(drop) < 0.5 * size and line.left > before.right - 0.5 * size:
        return "" if line.text[0] in ",.;:)]" and line.left - before.right < size else " "
    return "\n\n" if drop > 1.7 * size else "\n"


def body_size(lines: Iterable[PdfLine]) -> float:
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[round(line.size * 2) / 2] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def decoded(read: Callable[[], str]) -> str:
    """A text of pypdfium2 on one line; empty when it holds a lone surrogate, for which pypdfium2 raises."""
    try:
        return " ".join(read().split())
    except UnicodeDecodeError:
        return ""
