"""Whether a PDF page is a scan: a picture that only OCR can read, or text whose letters mean nothing.

A page without text is one when it shows an image, or so many drawn lines that they may be letters. A page with a little
text (a stamp, a page number) is one when images cover most of it.
"""

import ctypes
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pypdfium2 import PdfPage, raw  # type: ignore[import-untyped]

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
    """Fonts without a table of their letters: private codes and replacement characters, in the place of words."""
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
