"""Pages as a bad scan or a fax makes them, and what our OCR reads on them.

Each page is drawn, made coarse, blurred, tilted, sprinkled with noise and dirt, and pressed as a JPEG; about a third
become black and white, as a fax does it. The OCR is the product's, in as many processes as there are processors.
"""

import io
import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from benchmarks.parts.packet import Packet, unmarked

SIZE = (1000, 1414)  # pixels: A4 at about 120 dpi
MARGIN = 90
FONTS = Path("/usr/share/fonts/truetype/dejavu")
FACES = ("DejaVuSans", "DejaVuSerif", "DejaVuSansCondensed")
SIZES = {"# ": 34, "## ": 25, "~ ": 15}
LIMITS = {"pixels": 10**8, "characters": 5 * 10**7, "pages": 5000}
ARGUMENTS = {"media_type": "image/jpeg", "pages": [1], "language": "en", "engine": "rapid", "limits": LIMITS}


def read_scanned(packets: Sequence[Packet]) -> dict[tuple[str, int], str]:
    """What the OCR reads of each page of these packets, by packet and place of the page."""
    pages = [(packet.name, place, sheet.lines) for packet in packets for place, sheet in enumerate(packet.sheets)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        texts = pool.map(read_page, pages, chunksize=4)
        return {(name, place): text for (name, place, _), text in zip(pages, texts, strict=True)}


def read_page(page: tuple[str, int, tuple[str, ...]]) -> str:
    from penstock.extraction.ocr.task import ocr

    name, place, lines = page
    read = ocr(io.BytesIO(degrade(lines, random.Random(f"scan-{name}-{place}"))), ARGUMENTS, None)
    return "\n".join(found["text"] for found in read["pages"])


def degrade(lines: Sequence[str], draw: random.Random) -> bytes:
    """The JPEG of a page that has seen better days."""
    image = _drawn(lines, draw)
    coarse = draw.uniform(0.6, 0.8)
    image = image.resize((int(SIZE[0] * coarse), int(SIZE[1] * coarse)), Image.Resampling.BILINEAR)
    image = image.filter(ImageFilter.GaussianBlur(draw.uniform(0.2, 0.8)))
    image = image.rotate(draw.uniform(-1.5, 1.5), Image.Resampling.BICUBIC, fillcolor=250)
    noise = np.random.default_rng(draw.randrange(2**32))
    pixels = np.asarray(image, dtype=float) + noise.normal(0, draw.uniform(6, 22), (image.height, image.width))
    specks = noise.random(pixels.shape)
    pixels[specks < 0.002] = 0
    pixels[specks > 0.997] = 255
    if draw.random() < 0.33:
        pixels = np.where(pixels > draw.uniform(120, 160), 255.0, 0.0)
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    image = image.resize(SIZE, Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=draw.randint(25, 50))
    return file.getvalue()


def _drawn(lines: Sequence[str], draw: random.Random) -> Image.Image:
    image = Image.new("L", SIZE, 250)
    pen, face = ImageDraw.Draw(image), draw.choice(FACES)
    y = float(MARGIN)
    for line in lines:
        mark = next((mark for mark in SIZES if line.startswith(mark)), "")
        size = SIZES.get(mark, 19)
        bold = "-Bold" if mark in {"# ", "## "} else ""
        pen.text((MARGIN, y), unmarked(line), fill=draw.randint(10, 60), font=_font(face + bold, size))
        y += size * 1.55
    return image


def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONTS / f"{name}.ttf", size)
