"""Writes images as pages of a PDF, frame by frame, in the size in which they were scanned.

A JPEG is embedded as it is. Frames of one bit per pixel stay so (CCITT G4): hundreds of scanned pages stay small. Others are
packed without loss if that makes them small (drawings, screenshots), else as JPEG (photographs).
"""

import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from PIL import Image, ImageOps

from penstock.errors import Corrupt, Unreadable
from penstock.extraction.ocr.image import (
    BROKEN,
    check_pages,
    check_scans,
    check_size,
    count_directories,
    count_frames,
    load,
    on_white,
    open_image,
)
from penstock.extraction.result import Gap
from penstock.extraction.to_pdf.pdf_writer import PdfFile, pieces_of

RESOLUTION = 200  # dots per inch of an image without a resolution
LEAST_RESOLUTION, MOST_RESOLUTION = 50, 2400
SHORTER, LONGER = 842.0, 1191.0  # points: A3, the largest page
SMALLEST = 72.0  # points of the longer side of the smallest
THINNEST = 3.0  # points: viewers refuse pages that are less
MOST_PIXELS = 40_000_000  # of a frame that is packed again: A3 at 450 dpi
BAND = 2**21  # bytes that are packed at once
WELL_PACKED = 0.2  # of the bytes that its pixels have
SAMPLES, SAMPLE_ROWS = 8, 16
QUALITY = 88
_SPACES = {"1": b"/DeviceGray", "L": b"/DeviceGray", "RGB": b"/DeviceRGB"}
# The matrix that turns an image upright, by its EXIF orientation. From 5 on sides are swapped.
_TURNS = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}
_ORIENTATION = 0x0112


def write_pictures(file: BinaryIO, media_type: str, written: PdfFile, arguments: Mapping[str, Any]) -> list[Gap]:
    """A page for each frame; for one that is damaged an empty page, and a gap."""
    limits = arguments["limits"]
    if media_type == "image/tiff":
        check_pages(count_directories(file, limits["pages"]), limits["pages"])
    gaps: list[Gap] = []
    with open_image(file, media_type, limits["pixels"]) as image:
        count = count_frames(image, media_type)
        check_pages(count, limits["pages"])
        check_scans(image, file)
        if media_type != "image/tiff" and getattr(image, "n_frames", 1) > 1 and image.format in {"GIF", "PNG", "WEBP"}:
            gaps.append(Gap(None, "this image is an animation: only its first frame is used"))
        for number in range(1, count + 1):
            try:
                _seek(image, number, limits["pixels"])
                _write_frame(image, file, written)
            except Unreadable as error:
                if count == 1:
                    raise
                gaps.append(Gap(number, str(error)))
                written.add_page(595, 842, b"", b"")
    if count > 1 and sum(gap.page is not None for gap in gaps) == count:
        raise Corrupt("This image is damaged: none of its pages can be read.")
    return gaps


def _seek(image: Image.Image, number: int, pixels: int) -> None:
    try:
        image.seek(number - 1)
    except BROKEN as error:
        raise Corrupt("This page of the image is damaged.") from error
    check_size(image, pixels)
    load(image, Corrupt)


def _write_frame(image: Image.Image, file: BinaryIO, written: PdfFile) -> None:
    """The frame is decoded in any case: what cannot be, no viewer shows either."""
    across, down = _resolution(image)
    try:
        if image.format in {"JPEG", "MPO"} and image.mode in {"L", "RGB"}:
            turn = image.getexif().get(_ORIENTATION, 1)
            turn = turn if turn in _TURNS else 1
            entries = _entries(image, _SPACES[image.mode], 8)
            drawn = written.put_stream(entries + b"/Filter/DCTDecode", pieces_of(file))
        elif (strip := _fax_strip(image, file)) is not None:
            turn = 1
            drawn = _put_fax(image, image.tag_v2[262] == 1, strip, written)  # type: ignore[attr-defined]
        else:
            turn = 1
            upright = ImageOps.exif_transpose(image)
            if upright.size != image.size and upright.size == image.size[::-1]:
                across, down = down, across
            image = upright
            drawn = _put_pixels(image, written)
    except BROKEN as error:
        raise Corrupt("This image is damaged: its content is not an image.") from error
    width, height = image.width / across, image.height / down
    if turn >= 5:
        width, height = height, width
    width, height = page_size(72 * width, 72 * height)
    a, b, c, d, e, f = (value * side for value, side in zip(_TURNS[turn], [width, height] * 3, strict=True))
    content = b"%.2f %.2f %.2f %.2f %.2f %.2f cm /I Do" % (a, b, c, d, e, f)
    written.add_page(width, height, b"/XObject<</I %d 0 R>>" % drawn, content)


def _resolution(image: Image.Image) -> tuple[float, float]:
    """Dots per inch across and down: those of a fax differ."""
    resolution = image.info.get("dpi", (0, 0))
    try:
        across, down = float(resolution[0]), float(resolution[1])
    except (TypeError, ValueError, IndexError, ArithmeticError):
        across = down = 0.0
    if not all(LEAST_RESOLUTION <= value <= MOST_RESOLUTION for value in (across, down)):
        return RESOLUTION, RESOLUTION
    return across, down


def page_size(width: float, height: float) -> tuple[float, float]:
    """In points: shrunk to A3, upright or across, or grown until it can be seen."""
    shorter, longer = sorted((width, height))
    scale = min(1.0, SHORTER / shorter, LONGER / longer)
    if longer < SMALLEST:
        scale = SMALLEST / longer
    return max(THINNEST, width * scale), max(THINNEST, height * scale)


def _entries(image: Image.Image, space: bytes, bits: int) -> bytes:
    size = b"/Width %d/Height %d" % image.size
    return b"/Type/XObject/Subtype/Image%s/ColorSpace%s/BitsPerComponent %d" % (size, space, bits)


def _put_pixels(image: Image.Image, written: PdfFile) -> int:
    if image.mode == "1":
        return _put_bilevel(image, written)
    if image.mode == "P" and "transparency" not in image.info and image.palette is not None:
        colours = image.palette.tobytes() if image.palette.mode == "RGB" else b""
        if colours and len(colours) % 3 == 0 and len(colours) <= 768:
            space = b"[/Indexed/DeviceRGB %d<%s>]" % (len(colours) // 3 - 1, colours.hex().encode())
            return written.put_stream(_entries(image, space, 8) + b"/Filter/FlateDecode", _packed(image))
    if image.mode not in {"L", "RGB"} or "transparency" in image.info:
        image = on_white(image)
    if image.width * image.height > MOST_PIXELS:
        image = image.reduce(2)  # 100 million pixels, the usual limit, become 25
    return _put_colours(image, written)


def _put_colours(image: Image.Image, written: PdfFile) -> int:
    entries = _entries(image, _SPACES[image.mode], 8)
    if _packs_well(image):
        return written.put_stream(entries + b"/Filter/FlateDecode", _packed(image))
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=QUALITY)
    return written.put_stream(entries + b"/Filter/DCTDecode", [encoded.getvalue()])


def _packs_well(image: Image.Image) -> bool:
    """By samples: packing a photograph in vain takes longer than encoding it."""
    sizes = [0, 0]
    for number in range(SAMPLES):
        top = number * image.height // SAMPLES
        raw = image.crop((0, top, image.width, min(image.height, top + SAMPLE_ROWS))).tobytes()
        sizes[0] += len(raw)
        sizes[1] += len(zlib.compress(raw, 1))
    return sizes[1] < WELL_PACKED * sizes[0] + 1_000


def _packed(image: Image.Image) -> Iterator[bytes]:
    """Deflated in bands: all pixels as bytes would be the image a second time."""
    packer = zlib.compressobj(6)
    rows = max(1, BAND // (image.width * len(image.getbands())))
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(image.height, top + rows)))
        yield packer.compress(band.tobytes())
    yield packer.flush()


def _put_bilevel(image: Image.Image, written: PdfFile) -> int:
    """As a TIFF with a single strip, whose bytes are what a PDF takes, too."""
    encoded = io.BytesIO()
    bare = image.copy()
    bare.info = {}  # without its metadata
    bare.save(encoded, "TIFF", compression="group4", tiffinfo={278: image.height})
    encoded.seek(0)
    with Image.open(encoded, formats=["TIFF"]) as tiff:
        tags = tiff.tag_v2  # type: ignore[attr-defined]
        (start,), (size,), zero_is_black = tags[273], tags[279], tags[262] == 1
    return _put_fax(image, zero_is_black, [encoded.getbuffer()[start : start + size].tobytes()], written)


def _put_fax(image: Image.Image, zero_is_black: bool, strip: Iterable[bytes], written: PdfFile) -> int:
    black = b"true" if zero_is_black else b"false"
    parameters = b"/DecodeParms<</K -1/Columns %d/Rows %d/BlackIs1 %s>>" % (*image.size, black)
    return written.put_stream(_entries(image, b"/DeviceGray", 1) + b"/Filter/CCITTFaxDecode" + parameters, strip)


def _fax_strip(image: Image.Image, file: BinaryIO) -> list[bytes] | None:
    """The bytes of a frame that is one strip of G4 already, as scanners make them: packing takes five times as long."""
    tags = getattr(image, "tag_v2", {})
    usual = {259: 4, 262: tags.get(262), 266: 1, 274: 1, 293: 0}
    if image.mode != "1" or tags.get(259) != 4 or tags.get(262) not in {0, 1}:
        return None
    if any(tags.get(tag, wanted) != wanted for tag, wanted in usual.items()) or len(tags.get(273, ())) != 1:
        return None
    before = file.tell()
    file.seek(tags[273][0])
    strip = file.read(tags[279][0])
    file.seek(before)
    return [strip]
