"""What people have added to a PDF page: stamps, free text, notes, the values of form fields.

Most of it has a look of its own, which becomes part of the page when the page is flattened, and is then read in its place.
The rest (notes behind an icon, fields that a viewer would draw) is only in the annotation.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pypdfium2 import PdfPage, raw  # type: ignore[import-untyped]

MOST = 2_000  # annotations of a page
LONGEST = 100_000  # characters of one


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


def unsaid(notes: list[str], text: str) -> list[str]:
    """Without what the page says anyway."""
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
    size = min(raw.FPDFAnnot_GetStringValue(annotation, key, None, 0), 2 * LONGEST)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size)
    text = bytes(memoryview(buffer)).decode("utf-16-le", "replace").split("\0", 1)[0]
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
