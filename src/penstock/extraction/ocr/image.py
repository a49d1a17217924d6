"""Images: all their text is the OCR's to read. Here they are checked, and their frames counted.

Sizes are looked at before anything is decoded: a file of a few kilobytes can claim terabytes of pixels. Only TIFF has
pages; of an animation the first frame counts.
"""

import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from PIL import Image, ImageOps

from penstock.errors import Corrupt, Suspicious, TooMuch, Unsupported
from penstock.extraction.ocr.tiff import count_folders
from penstock.extraction.reading import Gap, Page, Reading

FORMATS = {
    "image/png": ["PNG"],
    "image/jpeg": ["JPEG"],  # also those with more of them behind, as phones make
    "image/tiff": ["TIFF"],
    "image/bmp": ["BMP", "DIB"],
    "image/webp": ["WEBP"],
    "image/gif": ["GIF"],
}
SMALLEST = 10  # pixels: no letter is lower
START_OF_SCAN = b"\xff\xda"
MOST_SCANNED = 20 * 10**9  # pixels over all scans: some seconds
# What Pillow's readers raise for files that are not as they should be.
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


def read_image(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    limits = arguments["limits"]
    if media_type == "image/tiff":
        check_pages(count_folders(file, limits["pages"]), limits["pages"])
    with open_image(file, media_type, limits["pixels"]) as image:
        count = count_frames(image, media_type)
        check_pages(count, limits["pages"])
        check_scans(image, file)
        width, height = image.size
        load(image, Corrupt)
    facts = {"width": str(width), "height": str(height)}
    if count == 1 and min(width, height) < SMALLEST:
        gap = Gap(1, f"this image is too small to hold text ({width} × {height} pixels)")
        return Reading(media_type, [Page(1, "")], facts=facts, gaps=[gap])
    numbers = range(1, count + 1)
    if not arguments.get("ocr", True):
        return Reading(media_type, facts=facts, gaps=[Gap(None, "this is an image, and the OCR is off")])
    return Reading(media_type, scanned=list(numbers), facts=facts)


@contextmanager
def open_image(file: BinaryIO, media_type: str, most: int) -> Iterator[Image.Image]:
    """Not decoded yet, and of a size that may be."""
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
    """A progressive JPEG comes in ten scans over all pixels; nothing but patience limits their number."""
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
    """Decode it, or say what is wrong with it."""
    try:
        image.load()
    except BROKEN as error:
        raise failure(f"This image is damaged: {_reason(error)}.") from error


def draw_frame(image: Image.Image, number: int, most: int, longest: int) -> Image.Image:
    """One frame as a person sees it: turned as the camera says, on white, and not larger than the OCR needs."""
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
    """In words of ours: Pillow's are those of its modules."""
    text = str(error)
    if "truncated" in text:
        return "its end is missing"
    if "too large" in text:
        return "a comment or a colour profile in it is far too large"
    return "it cannot be recognised" if "cannot identify" in text else "what is in it makes no image"
