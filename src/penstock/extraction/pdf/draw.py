"""Pages as images for the OCR: of a PDF drawn, of an image decoded; never larger than the OCR needs or the limits allow."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from PIL import Image

from penstock.errors import Corrupt
from penstock.extraction.ocr.image import draw_frame, open_image

RESOLUTION = 200  # dots per inch, at most; RapidOCR reads a printed page as well at 150 as at 250
LONGEST = 2000  # pixels of the longer side: what RapidOCR works with at most
SHORTER = 1000  # pixels of the shorter side of a long strip, which is read in pieces
STRIP = 3  # times as long as wide

Draw = Callable[[int], Image.Image]


@contextmanager
def open_pages(file: BinaryIO, media_type: str, pixels: int) -> Iterator[Draw]:
    """A function that draws the page of a number; `Unreadable` when that page cannot be."""
    if media_type == "application/pdf":
        with _open_pdf_pages(file, pixels) as draw:
            yield draw
        return
    with open_image(file, media_type, pixels) as image:
        if getattr(image, "n_frames", 1) == 1:
            yield lambda number: fit(draw_frame(image, number, pixels, LONGEST))
        else:  # an image keeps the frame that it has decoded, and some formats cannot go back
            yield lambda number: fit(_fresh_frame(file, media_type, number, pixels))


def _fresh_frame(file: BinaryIO, media_type: str, number: int, pixels: int) -> Image.Image:
    with open_image(file, media_type, pixels) as image:
        return draw_frame(image, number, pixels, LONGEST)


@contextmanager
def _open_pdf_pages(file: BinaryIO, pixels: int) -> Iterator[Draw]:
    from penstock.extraction.pdf.file import open_pdf

    with open_pdf(file) as document:
        yield lambda number: _draw_pdf_page(document, number, pixels)


def _draw_pdf_page(document: Any, number: int, pixels: int) -> Image.Image:
    from pypdfium2 import PdfiumError  # type: ignore[import-untyped]

    try:
        with closing(document[number - 1]) as page:
            width, height = page.get_size()
            scale = drawing_scale(width, height, pixels)
            with closing(page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)) as bitmap:
                drawn: Image.Image = bitmap.to_pil().convert("RGB")
                return drawn
    except (PdfiumError, IndexError, MemoryError, ValueError, OverflowError) as error:
        raise Corrupt(
            f"This page cannot be drawn: {' '.join(str(error).split())[:200] or type(error).__name__}."
        ) from error


def drawing_scale(width: float, height: float, pixels: int) -> float:
    """Pixels per point, for a page of a size in points."""
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        raise ValueError("it has no size")
    shorter, longer = sorted((width, height))
    bound = SHORTER / shorter if longer > STRIP * shorter else LONGEST / longer
    return min(RESOLUTION / 72, bound, math.sqrt(pixels / (width * height)))


def fit(image: Image.Image) -> Image.Image:
    """Shrunk to what the OCR works with."""
    shorter, longer = sorted(image.size)
    scale = SHORTER / shorter if longer > STRIP * shorter else LONGEST / longer
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BOX if scale < 0.5 else Image.Resampling.BILINEAR)


def cut_strip(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """A long strip (a receipt, a web page) in pieces as (top, piece), cut where no ink is if there is such a place."""
    width, height = image.size
    if height <= STRIP * width:
        yield 0, image
        return
    import numpy as np

    unrest = np.asarray(image.convert("L"), dtype=np.float32).std(axis=1)
    top, step, reach = 0, 2 * width, width // 2
    while height - top > step + reach:
        window = unrest[top + step - reach : top + step]
        cut = top + step - reach + int(np.argmin(window))
        yield top, image.crop((0, top, width, cut))
        top = cut
    yield top, image.crop((0, top, width, height))
