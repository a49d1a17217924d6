"""Scanned pages that are cheap to read: one short line each, as a PDF without text."""

import io

from PIL import Image, ImageDraw, ImageFont

SIZE = (850, 220)  # pixels of a page at 100 dpi
WORDS = ("turbine", "sluice", "bearing", "miller", "harvest", "ledger", "granite", "lantern")


def scanned_pages(first: int, count: int) -> bytes:
    """Pages `first` and on; each says its number and a word."""
    font = ImageFont.load_default(size=40)
    images = []
    for number in range(first, first + count):
        image = Image.new("L", SIZE, 255)
        ImageDraw.Draw(image).text((40, 80), f"Page {number} tells of the {WORDS[number % 8]}", fill=0, font=font)
        images.append(image.convert("1"))
    out = io.BytesIO()
    images[0].save(out, "PDF", save_all=True, append_images=images[1:], resolution=100)
    return out.getvalue()


def scanned_files(pages: int, each: int = 50) -> dict[str, bytes]:
    """A packet of so many pages, `each` in one document."""
    return {
        f"scan-{first:04}.pdf": scanned_pages(first, min(each, pages - first + 1))
        for first in range(1, pages + 1, each)
    }
