"""Typesets text on A4 pages, line by line, in a monospaced font.

No font is embedded. Letters of Windows-1252 are set in Courier, which every viewer has. All others are set in a font that has
only widths and a map to Unicode: pdfium and other readers extract the text in any script; a viewer shows it in its own
fonts, and leaves the place of a letter that they lack empty. Letters are not joined or stacked as Arabic or Devanagari need
it. Lines with right-to-left letters are written in visual order. White space keeps its width, and is extracted as one space.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from penstock.extraction.result import refuse_pages
from penstock.extraction.to_pdf.pdf_writer import PdfFile
from penstock.text import storable

WIDTH, HEIGHT, MARGIN = 595, 842, 48
SIZE, LEADING = 10, 12
CELL = 0.6 * SIZE  # the width of a letter of Courier
COLUMNS = int((WIDTH - 2 * MARGIN) / CELL)
LINES = (HEIGHT - 2 * MARGIN) // LEADING
TAB = 8
OUTLINE = 0.05  # points: pdfium drops a single letter that its font does not have, unless it has an outline
_CODES = 65_000  # letters of one font, whose codes have two bytes
_ESCAPED = str.maketrans({"\\": "\\\\", "(": "\\(", ")": "\\)"})
_PLAIN = frozenset(bytes([*range(0x20, 0x7F), *range(0xA0, 0x100), 0x80, *range(0x82, 0x8D), 0x8E, *range(0x91, 0x9D),
                          0x9E, 0x9F]).decode("cp1252")) - {"\xad", "\xa0"}  # fmt: skip
_COURIER = b"<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>"
_RIGHT, _LEFT, _NEUTRAL, _WEAK = range(4)
_CLASSES = {"R": _RIGHT, "AL": _RIGHT, "L": _LEFT} | dict.fromkeys(["AN", "EN", "NSM", "CS", "ES", "ET", "BN"], _WEAK)
# A bracket that opens to the right opens to the left when its run is turned.
_PAIRS = "()<>[]{}«»‹›≤≥≪≫≮≯∈∋∉∌⊂⊃⊆⊇≺≻⟨⟩⟦⟧⁽⁾₍₎〈〉《》「」『』【】〔〕〖〗"
_MIRRORED = str.maketrans(_PAIRS, "".join(_PAIRS[at ^ 1] for at in range(len(_PAIRS))))


def write_texts(texts: Iterable[str], written: PdfFile, arguments: Mapping[str, Any]) -> list[int]:
    """Typeset each text from the top of a page, and return the numbers of their first pages."""
    typesetter = Typesetter(written, arguments)
    firsts = []
    for text in texts:
        firsts.append(len(written.kids) + 1)
        typesetter.set_text(text)
    typesetter.finish()
    return firsts


class Typesetter:
    """Sets pages into a PDF, and records which letters it has used."""

    def __init__(self, written: PdfFile, arguments: Mapping[str, Any]) -> None:
        self._written = written
        self._arguments = arguments
        self._codes: dict[str, int] = {}
        self._fonts: list[int] = []
        self._courier = written.put(_COURIER)

    def set_text(self, text: str) -> None:
        """Typeset a text from the top of a new page."""
        lines: list[str] = []
        for line in wrapped(text):
            lines.append(line)
            if len(lines) == LINES:
                self._set_page(lines)
                lines = []
        if lines or not text:
            self._set_page(lines)

    def finish(self) -> None:
        for number, font in enumerate(self._fonts):
            used = [(code % _CODES + 1, letter) for letter, code in self._codes.items() if code // _CODES == number]
            self._put_font(font, used)

    def _set_page(self, lines: list[str]) -> None:
        refuse_pages(len(self._written.kids) + 1, self._arguments)
        content = b"".join(self._show(line, HEIGHT - MARGIN - SIZE - at * LEADING) for at, line in enumerate(lines))
        fonts = b"".join(b"/U%d %d 0 R" % (number, font) for number, font in enumerate(self._fonts))
        self._written.add_page(WIDTH, HEIGHT, b"/Font<</C %d 0 R%s>>" % (self._courier, fonts), content)

    def _show(self, line: str, base: float) -> bytes:
        if not line.strip():
            return b""
        shown = [b"BT %.2f w 1 0 0 1 %d %d Tm" % (OUTLINE, MARGIN, base)]
        for font, letters in groupby(visual(line), self._font_of):
            run = "".join(letters)
            if font < 0:
                shown.append(b"0 Tr /C %d Tf (%s) Tj" % (SIZE, run.translate(_ESCAPED).encode("cp1252")))
            else:
                codes = b"".join(b"%04X" % (self._codes[letter] % _CODES + 1) for letter in run)
                shown.append(b"2 Tr /U%d %d Tf <%s> Tj" % (font, SIZE, codes))
        return b" ".join([*shown, b"ET\n"])

    def _font_of(self, letter: str) -> int:
        if letter in _PLAIN:
            return -1
        font = self._codes.setdefault(letter, len(self._codes)) // _CODES
        if font == len(self._fonts):
            self._fonts.append(self._written.reserve())
        return font

    def _put_font(self, number: int, used: list[tuple[int, str]]) -> None:
        put = self._written.put
        descriptor = put(
            b"<</Type/FontDescriptor/FontName/Courier/Flags 33/FontBBox[0 -250 1200 1000]/ItalicAngle 0"
            b"/Ascent 800/Descent -200/CapHeight 600/StemV 80>>"
        )
        widths = b"".join(b"%d[%d]" % (code, 600 * cells(letter)) for code, letter in used if cells(letter) != 1)
        kin = put(
            b"<</Type/Font/Subtype/CIDFontType2/BaseFont/Courier/DW 600/W[%s]/FontDescriptor %d 0 R"
            b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>" % (widths, descriptor)
        )
        meaning = self._written.put_packed(_unicode_map(used))
        put(
            b"<</Type/Font/Subtype/Type0/BaseFont/Courier/Encoding/Identity-H/DescendantFonts[%d 0 R]/ToUnicode %d 0 R>>"
            % (kin, meaning),
            number,
        )


def _unicode_map(used: list[tuple[int, str]]) -> bytes:
    rows = [b"<%04X><%s>" % (code, letter.encode("utf-16-be").hex().encode()) for code, letter in used]
    blocks = [rows[start : start + 100] for start in range(0, len(rows), 100)]  # the most that one block may have
    return b"".join(
        [
            b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n",
            b"/CIDSystemInfo<</Registry(Adobe)/Ordering(UCS)/Supplement 0>> def /CMapName/Adobe-Identity-UCS def\n",
            b"/CMapType 2 def 1 begincodespacerange <0000><FFFF> endcodespacerange\n",
            *[b"%d beginbfchar\n%s\nendbfchar\n" % (len(block), b"\n".join(block)) for block in blocks],
            b"endcmap CMapName currentdict /CMap defineresource pop end end",
        ]
    )


def visual(line: str) -> str:
    """The letters of a line in the order in which they stand on paper, from left to right."""
    if line.isascii() or not any(_class(letter) == _RIGHT for letter in line):
        return line
    runs = [(kind, "".join(letters)) for kind, letters in groupby(line, _class)]
    kinds = [kind for kind, _ in runs]
    leftwards = overall = kinds.count(_RIGHT) > kinds.count(_LEFT)
    placed = []
    for kind, letters in runs:
        if kind in {_LEFT, _RIGHT}:
            leftwards = kind == _RIGHT
        placed.append(letters[::-1].translate(_MIRRORED) if leftwards and kind != _WEAK else letters)
    return "".join(reversed(placed) if overall else placed)


def _class(letter: str) -> int:
    return _CLASSES.get(unicodedata.bidirectional(letter), _NEUTRAL)


def cells(letter: str) -> int:
    """The width of a letter in letters of Courier."""
    if letter in _PLAIN:
        return 1
    if unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in {"W", "F"} else 1


def wrapped(text: str) -> Iterator[str]:
    """Lines that fit the page, broken at spaces where there are any."""
    clean = storable(text, "\0").replace("\xa0", " ")
    for line in clean.split("\n"):
        yield from _wrap(line.expandtabs(TAB).rstrip())


def _wrap(line: str) -> Iterator[str]:
    if len(line) <= COLUMNS and line.isascii():
        yield line
        return
    begin, end, wide, space = 0, 0, 0, -1
    while end < len(line):
        wide += cells(line[end])
        if wide > COLUMNS:
            cut = space if space > begin else end
            yield line[begin:cut].rstrip()
            begin = cut + (line[cut] == " ")
            end, wide, space = begin, 0, -1
            continue
        if line[end] == " ":
            space = end
        end += 1
    yield line[begin:]
