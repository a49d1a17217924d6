"""What kreuzberg needs help with in the binary formats: a strict reader of their container, and text outside of cells."""

import io
import re
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from penstock.errors import Corrupt
from penstock.extraction.office.compound import MAGIC, Compound
from penstock.extraction.office.oldoffice import XLS
from penstock.extraction.reading import Page

_WORD = re.compile(r"\w+")
_FIELD = re.compile(
    r'\b(?:HYPERLINK|INCLUDEPICTURE)(?: \\\w)*\s+"[^"\n”]{0,2000}["”](?: \\\w+)*\s?|\bEMBED (?:Package|[A-Z]\w+\.\w+(?:\.\d+)?)'
)
_CONTINUED, _TEXT_OBJECT, _SERIES_TEXT = 0x3C, 0x1B6, 0x100D


def padded(raw: bytes) -> bytes:
    """As long as the allocation table says: some writers leave out free sectors at the end, and kreuzberg insists on them."""
    if not raw.startswith(MAGIC) or len(raw) < 512:
        return raw
    sector = 1 << min(struct.unpack("<H", raw[30:32])[0], 12)
    tables = min(struct.unpack("<I", raw[44:48])[0], len(raw) // sector + 1)
    return raw + bytes(max(0, (tables * (sector // 4) + 1) * sector - len(raw)))


def without_fields(text: str) -> str:
    """Word's instructions to itself, which old files keep between the words."""
    return _FIELD.sub("", text) if "HYPERLINK" in text or "EMBED" in text or "INCLUDEPICTURE" in text else text


def missing(file: BinaryIO, media_type: str, pages: Iterable[Page]) -> Iterator[str]:
    """Text boxes and the words of charts in an old Excel file."""
    if media_type != XLS:
        return
    known = set(_WORD.findall("\n".join(page.text for page in pages).lower()))
    try:
        tree = Compound(file)
    except Corrupt:
        return
    given: set[str] = set()
    for text in _box_texts(tree.read("workbook") or tree.read("book")):
        if text not in given and not known.issuperset(_WORD.findall(text.lower())):
            given.add(text)
            yield text


def _box_texts(book: bytes) -> Iterator[str]:
    stream = io.BytesIO(book)
    wanted = False
    while len(head := stream.read(4)) == 4:
        record, length = struct.unpack("<HH", head)
        body = stream.read(length)
        if record == _CONTINUED and wanted and body:
            yield _characters(body[1:], wide=bool(body[0] & 1))
        elif record == _SERIES_TEXT and len(body) > 4:
            yield _characters(body[4:], wide=bool(body[3] & 1))
        wanted = record == _TEXT_OBJECT and len(body) >= 12 and struct.unpack("<H", body[10:12])[0] > 0


def _characters(raw: bytes, *, wide: bool) -> str:
    return raw.decode("utf-16-le" if wide else "latin-1", "replace").strip()
