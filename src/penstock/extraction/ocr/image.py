"""Images: checks them and counts their frames; their text is left to the OCR.

Sizes are checked before anything is decoded: a file of a few kilobytes can claim terabytes of pixels. Only TIFF has pages; of
an animation only the first frame is read.
"""

import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from PIL import Image, ImageOps

from penstock.errors import Corrupt, Suspicious, TooMuch, Unsupported
from penstock.extraction.result import ExtractedDocument, Gap, Page

# TIFF by byte order and version: offset of the first directory's place, and the formats of a place and of a number of tags,
# and the bytes of a tag
_TIFF_LAYOUTS = {
    b"II*\0": (4, "<L", "<H", 12),
    b"MM\0*": (4, ">L", ">H", 12),
    b"II+\0": (8, "<Q", "<Q", 20),
    b"MM\0+": (8, ">Q", ">Q", 20),
}


FORMATS = {
    "image/png": ["PNG"],
    "image/jpeg": ["JPEG"],  # also those with more images after the first, as phones make
    "image/tiff": ["TIFF"],
    "image/bmp": ["BMP", "DIB"],
    "image/webp": ["WEBP"],
    "image/gif": ["GIF"],
}
SMALLEST = 10  # pixels: no letter is smaller
START_OF_SCAN = b"\xff\xda"
MOST_SCANNED = 20 * 10**9  # pixels over all scans: some seconds
# Errors of Pillow's readers for damaged files.
BROKEN = (
    *(
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        TypeError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RuntimeError,
    ),
    *(struct.error, zlib.error),
)


def read_image(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    limits = arguments["limits"]
    if media_type == "image/tiff":
        check_pages(count_directories(file, limits["pages"]), limits["pages"])
    with open_image(file, media_type, limits["pixels"]) as image:
        count = count_frames(image, media_type)
        check_pages(count, limits["pages"])
        check_scans(image, file)
        width, height = image.size
        load(image, Corrupt)
    facts = {"width": str(width), "height": str(height)}
    if count == 1 and min(width, height) < SMALLEST:
        gap = Gap(1, f"this image is too small to hold text ({width} × {height} pixels)")
        return ExtractedDocument(media_type, [Page(1, "")], facts=facts, gaps=[gap])
    numbers = range(1, count + 1)
    if not arguments.get("ocr", True):
        return ExtractedDocument(media_type, facts=facts, gaps=[Gap(None, "this is an image, and the OCR is off")])
    return ExtractedDocument(media_type, scanned=list(numbers), facts=facts)


def count_directories(file: BinaryIO, most: int) -> int:
    """Count the directories of a TIFF, one for each page, up to its end, a loop, a damaged one, or one more than `most`."""
    file.seek(0)
    layout = _TIFF_LAYOUTS.get(file.read(4))
    if layout is None:
        return 0
    at, place, number, tag = layout
    seen: set[int] = set()
    try:
        file.seek(at)
        while (directory := _number(file, place)) and directory not in seen and len(seen) <= most:
            file.seek(directory)
            file.seek(directory + struct.calcsize(number) + _number(file, number) * tag)
            seen.add(directory)
    except (struct.error, OSError, OverflowError, ValueError):
        pass
    return len(seen)


def _number(file: BinaryIO, layout: str) -> int:
    value: int = struct.unpack(layout, file.read(struct.calcsize(layout)))[0]
    return value


@contextmanager
def open_image(file: BinaryIO, media_type: str, most: int) -> Iterator[Image.Image]:
    """Open an image of an allowed size, without decoding it."""
    if media_type not in FORMATS:
        raise Unsupported(f"Images of the type {media_type} cannot be read here.")
    Image.MAX_IMAGE_PIXELS = None  # the check below has the limit of the settings, and covers later frames, too
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, about damaged metadata; what matters fails when it is decoded
        try:
            image = Image.open(file, formats=FORMATS[media_type])
        except BROKEN as error:
            raise Corrupt(f"This image is damaged: {_reason(error)}.") from error
        with image:
            check_size(image, most)
            yield image


def check_pages(count: int, most: int) -> None:
    if count > most:
        raise TooMuch(f"This image has more than {most:,} pages, the limit (limits.pages).")


def check_scans(image: Image.Image, file: BinaryIO) -> None:
    """Refuse a progressive JPEG with thousands of scans over all pixels, where ten are usual."""
    if "progressive" not in image.info:
        return
    before, scans, tail = file.tell(), 0, b""
    file.seek(0)
    while piece := file.read(2**20):
        scans += (tail + piece).count(START_OF_SCAN)
        tail = piece[-1:]
    file.seek(before)
    if scans * image.width * image.height > MOST_SCANNED:
        raise Suspicious(f"This image is drawn over and over, in {scans:,} scans, where ten are usual.")


def check_size(image: Image.Image, most: int) -> None:
    width, height = image.size
    if width * height > most:
        raise TooMuch(f"This image has {width:,} × {height:,} pixels; limits.pixels allows {most:,} in all.")


def count_frames(image: Image.Image, media_type: str) -> int:
    if media_type != "image/tiff":
        return 1
    try:
        return int(getattr(image, "n_frames", 1))
    except BROKEN as error:
        raise Corrupt(f"This image is damaged: {_reason(error)}.") from error


def load(image: Image.Image, failure: type[Exception]) -> None:
    """Decode it, or raise `failure` with the reason."""
    try:
        image.load()
    except BROKEN as error:
        raise failure(f"This image is damaged: {_reason(error)}.") from error


def draw_frame(image: Image.Image, number: int, most: int, longest: int) -> Image.Image:
    """One frame as a person sees it: upright, on white, and not larger than the OCR needs."""
    try:
        image.seek(number - 1)
    except BROKEN as error:
        raise Corrupt(f"This page of the image is damaged: {_reason(error)}.") from error
    check_size(image, most)
    if number == 1:
        image.draft("RGB", (longest, longest))  # a JPEG decodes to a half or a quarter faster
    load(image, Corrupt)
    try:
        return on_white(ImageOps.exif_transpose(image))
    except BROKEN as error:
        raise Corrupt(f"This image is damaged: {_reason(error)}.") from error


def on_white(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits per pixel: the range that is used becomes black to white
        low, high = image.getextrema()
        scale = 255 / (float(high) - float(low) or 1.0)  # type: ignore[arg-type]
        return image.convert("F").point(lambda value: (value - float(low)) * scale).convert("L").convert("RGB")  # type: ignore[arg-type]
    if image.mode in {"RGBA", "LA", "PA", "La", "RGBa"} or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    """A sentence for people; Pillow's texts name its modules."""
    text = str(error)
    if "truncated" in text:
        return "its end is missing"
    if "too large" in text:
        return "a comment or a colour profile in it is far too large"
    return "it cannot be recognised" if "cannot identify" in text else "its content is not an image"
