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

from penstock.errors import Corrupt, TooMuch, Unsupported
from penstock.extraction.reading import Gap, Page, Reading

FORMATS = {
    "image/png": ["PNG"],
    "image/jpeg": ["JPEG", "MPO"],  # MPO: a JPEG with more of them behind it, as phones make
    "image/tiff": ["TIFF"],
    "image/bmp": ["BMP", "DIB"],
    "image/webp": ["WEBP"],
    "image/gif": ["GIF"],
}
SMALLEST = 10  # pixels: no letter is lower
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
    with open_image(file, media_type, limits["pixels"]) as image:
        count = count_frames(image, media_type)
        if count > limits["pages"]:
            raise TooMuch(f"This image has {count:,} pages; limits.pages allows {limits['pages']:,}.")
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
    text = " ".join(str(error).split()).rstrip(".")[:200]
    return "it cannot be recognised" if "cannot identify" in text or not text else text
