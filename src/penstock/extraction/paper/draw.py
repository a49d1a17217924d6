"""The task "draw": one page of a PDF or of an image, as a picture for a screen."""

import io
from typing import Any, BinaryIO

from PIL import Image

from penstock.errors import Corrupt, Unsupported
from penstock.extraction import signature
from penstock.extraction.ocr.image import FORMATS
from penstock.extraction.paper.scratch import PIECE, Reply
from penstock.extraction.pdf.bombs import refuse_bombs
from penstock.extraction.pdf.draw import LONGEST, open_pages

NARROWEST = 16  # pixels
LARGE = 2**20  # bytes of a PNG: what is larger is a photograph, and smaller as JPEG
QUALITY = 85


def draw(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """What a box runs for the task "draw"."""
    media_type, number = str(arguments["media_type"]), int(arguments["page"])
    if media_type != signature.PDF and media_type not in FORMATS:
        raise Unsupported(f"Pages of the type {media_type} cannot be drawn here: only those of PDFs and images.")
    if number < 1:
        raise Corrupt("This page cannot be drawn: pages are counted from 1 on.")
    if media_type == signature.PDF:
        refuse_bombs(file, number)
    file.seek(0)
    with open_pages(file, media_type, arguments["limits"]["pixels"]) as draw_page:
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
