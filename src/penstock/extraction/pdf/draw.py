"""Draws pages of a PDF, or decodes those of an image, for the OCR and (task "draw") for a screen.

A drawing is never larger than the OCR needs or the limits allow. For a screen it is narrowed, and sent as PNG or JPEG. A
passage of the page's own text can be marked in it; of a scan only the text is known, not where it stands.
"""

import ctypes
import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from PIL import Image, ImageChops

from penstock.errors import Corrupt, Unsupported
from penstock.extraction.identify import PDF
from penstock.extraction.ocr.image import FORMATS, draw_frame, open_image
from penstock.extraction.pdf.file import refuse_bombs
from penstock.extraction.sandbox.protocol import Reply
from penstock.extraction.to_pdf.pdf_writer import PIECE

RESOLUTION = 200  # dots per inch, at most; RapidOCR reads a printed page as well at 150 as at 250
LONGEST = 2000  # pixels of the longer side: what RapidOCR works with at most
SHORTER = 1000  # pixels of the shorter side of a long strip, which is read in pieces
STRIP = 3  # times as long as wide
NARROWEST = 16  # pixels of a drawing for a screen
LARGE = 2**20  # bytes of a PNG: a larger one is a photograph, which is smaller as JPEG
QUALITY = 85
MARK = (255, 232, 130)  # the colour behind a passage: ink stays black
UNPRINTED = re.compile(r"[\s\-\ufffe]+")  # what reading may have added to the words of a page, or taken from them

Draw = Callable[[int], Image.Image]


@contextmanager
def open_pages(file: BinaryIO, media_type: str, pixels: int, passage: str = "") -> Iterator[Draw]:
    """Yield a function that draws the page of a number, or raises `Unreadable`. Of a PDF, it marks the passage."""
    if media_type == PDF:
        from penstock.extraction.pdf.file import open_pdf

        with open_pdf(file) as document:
            yield lambda number: _draw_pdf_page(document, number, pixels, passage)
        return
    with open_image(file, media_type, pixels) as image:
        if getattr(image, "n_frames", 1) == 1:
            yield lambda number: fit(draw_frame(image, number, pixels, LONGEST))
        else:  # an image keeps the frame that it has decoded, and some formats cannot go back
            yield lambda number: fit(_fresh_frame(file, media_type, number, pixels))


def _fresh_frame(file: BinaryIO, media_type: str, number: int, pixels: int) -> Image.Image:
    with open_image(file, media_type, pixels) as image:
        return draw_frame(image, number, pixels, LONGEST)


def _draw_pdf_page(document: Any, number: int, pixels: int, passage: str) -> Image.Image:
    from pypdfium2 import PdfiumError  # type: ignore[import-untyped]

    try:
        with closing(document[number - 1]) as page:
            width, height = page.get_size()
            scale = drawing_scale(width, height, pixels)
            with closing(page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)) as bitmap:
                drawn: Image.Image = bitmap.to_pil().convert("RGB")
            for box in _find_passage(page, passage, drawn.size) if passage else ():
                part = drawn.crop(box)
                drawn.paste(ImageChops.multiply(part, Image.new("RGB", part.size, MARK)), box)
            return drawn
    except (PdfiumError, IndexError, MemoryError, ValueError, OverflowError) as error:
        raise Corrupt(
            f"This page cannot be drawn: {' '.join(str(error).split())[:200] or type(error).__name__}."
        ) from error


def _find_passage(page: Any, passage: str, size: tuple[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """The boxes of a passage in the drawing, line by line; none if the page does not have these words in this order."""
    from penstock.extraction.pdf.text import order, read_lines

    with closing(page.get_textpage()) as text:
        lines = order(read_lines(text))
    words = UNPRINTED.sub("", passage)
    printed = [UNPRINTED.sub("", line.text) for line in lines]
    begins = "".join(printed).find(words) if words else -1
    if begins < 0:
        return
    ends = begins + len(words)
    at = 0
    for line, letters in zip(lines, printed, strict=True):
        first, last = max(begins - at, 0), min(ends - at, len(letters))
        at += len(letters)
        if first >= last:
            continue
        wide = (line.right - line.left) / len(letters)  # of a letter, nearly: a mark need not be exact
        left, right = line.left + wide * first, line.left + wide * last
        box = _in_drawing(page, size, (left, line.base - 0.25 * line.size), (right, line.base + 0.85 * line.size))
        if box[0] < box[2] and box[1] < box[3]:
            yield box


def _in_drawing(page: Any, size: tuple[int, int], *corners: tuple[float, float]) -> tuple[int, int, int, int]:
    """A box of the page, which may be turned or cropped, in pixels of its drawing."""
    from pypdfium2 import raw

    across, down = [], []
    for x, y in corners:
        column, row = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(page.raw, 0, 0, *size, 0, x, y, column, row)
        across.append(min(max(column.value, 0), size[0]))
        down.append(min(max(row.value, 0), size[1]))
    return min(across), min(down), max(across), max(down)


def drawing_scale(width: float, height: float, pixels: int) -> float:
    """Pixels per point, for a page of a size in points."""
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        raise ValueError("it has no size")
    shorter, longer = sorted((width, height))
    bound = SHORTER / shorter if longer > STRIP * shorter else LONGEST / longer
    return min(RESOLUTION / 72, bound, math.sqrt(pixels / (width * height)))


def fit(image: Image.Image) -> Image.Image:
    """Shrink it to the size that the OCR works with."""
    shorter, longer = sorted(image.size)
    scale = SHORTER / shorter if longer > STRIP * shorter else LONGEST / longer
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BOX if scale < 0.5 else Image.Resampling.BILINEAR)


def cut_strip(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Cut a long strip (a receipt, a web page) into (top, piece), at rows without ink if possible."""
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


def draw(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Run the task "draw": send one page as an image."""
    media_type, number = str(arguments["media_type"]), int(arguments["page"])
    if media_type != PDF and media_type not in FORMATS:
        raise Unsupported(f"Pages of the type {media_type} cannot be drawn here: only those of PDFs and images.")
    if number < 1:
        raise Corrupt("This page cannot be drawn: pages are counted from 1 on.")
    if media_type == PDF:
        refuse_bombs(file, number)
    file.seek(0)
    passage = str(arguments.get("passage", ""))
    with open_pages(file, media_type, arguments["limits"]["pixels"], passage) as draw_page:
        image = _narrowed(draw_page(number), int(arguments.get("width", 1000)))
    content, kind = _encoded(image)
    name = "page.png" if kind == "image/png" else "page.jpg"
    pieces = (content[start : start + PIECE] for start in range(0, len(content), PIECE))
    reply.part({"name": name, "media_type": kind}, pieces)
    return {"media_type": kind, "width": image.width, "height": image.height}


def _narrowed(image: Image.Image, width: int) -> Image.Image:
    """Never wider than what was drawn: pixels cannot be made up."""
    width = max(NARROWEST, min(width, LONGEST))
    if image.width <= width:
        return image
    return image.resize((width, max(1, round(image.height * width / image.width))), Image.Resampling.LANCZOS)


def _encoded(image: Image.Image) -> tuple[bytes, str]:
    written = io.BytesIO()
    image.save(written, "PNG")
    if written.tell() <= LARGE:
        return written.getvalue(), "image/png"
    written = io.BytesIO()
    image.save(written, "JPEG", quality=QUALITY)
    return written.getvalue(), "image/jpeg"
