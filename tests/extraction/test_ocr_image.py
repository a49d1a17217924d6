import io
import struct
import time
import zlib

import pytest
from PIL import Image

from penstock.errors import Corrupt, Suspicious, TooMuch, Unsupported
from penstock.extraction.ocr.image import count_directories, read_image
from penstock.extraction.pdf.draw import LONGEST, SHORTER, cut_strip, drawing_scale, fit, open_pages
from penstock.extraction.result import ExtractedDocument
from tests.extraction.sample_pdfs import arguments, encode, picture

SMALL = picture([(10, 10, 40, "Text")], (200, 100))
KINDS = {"png": "PNG", "jpeg": "JPEG", "tiff": "TIFF", "bmp": "BMP", "webp": "WEBP", "gif": "GIF"}


def read(raw: bytes, kind: str, **limits: int) -> ExtractedDocument:
    return read_image(io.BytesIO(raw), f"image/{kind}", arguments(**limits))


def draw(raw: bytes, kind: str, number: int = 1) -> Image.Image:
    with open_pages(io.BytesIO(raw), f"image/{kind}", 10**8) as drawn:
        return drawn(number)


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_one_scanned_page(kind: str) -> None:
    reading = read(encode(SMALL, KINDS[kind]), kind)

    assert (reading.media_type, list(reading.pages), list(reading.scanned)) == (f"image/{kind}", [], [1])
    assert reading.facts == {"width": "200", "height": "100"}
    assert draw(encode(SMALL, KINDS[kind]), kind).size == (200, 100)


def test_frames_of_a_tiff_are_pages_and_of_an_animation_are_not() -> None:
    frames = [picture([], (60 + number, 40)) for number in range(3)]
    tiff = encode(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    gif = encode(
        frames[0], "GIF", save_all=True, append_images=[picture([(1, 1, 20, str(n))], (60, 40)) for n in range(3)]
    )

    assert list(read(tiff, "tiff").scanned) == [1, 2, 3]
    assert [draw(tiff, "tiff", number).width for number in (3, 1, 2)] == [62, 60, 61]
    assert list(read(gif, "gif").scanned) == [1]


def test_too_many_frames() -> None:
    frames = [Image.new("1", (20, 20)) for _ in range(4)]
    with pytest.raises(TooMuch, match=r"more than 3 pages"):
        read(encode(frames[0], "TIFF", save_all=True, append_images=frames[1:]), "tiff", pages=3)


def test_too_many_frames_are_counted_in_one_pass() -> None:
    """Pillow compares each folder with all before it, and takes minutes for these."""
    folder = struct.pack("<H2HLL", 1, 256, 4, 1, 8)
    places = [8 + number * (len(folder) + 4) for number in range(1, 60_001)]
    raw = b"II*\0\x08\0\0\0" + b"".join(folder + struct.pack("<L", place) for place in places)
    began = time.process_time()
    with pytest.raises(TooMuch, match="more than 5,000 pages"):
        read(raw, "tiff")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("start", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"])
def test_folders_of_a_tiff_end_at_a_loop_or_at_the_end(start: bytes) -> None:
    order = ">" if start[:2] == b"MM" else "<"
    place, number, first = ("Q", "Q", 16) if b"+" in start else ("L", "H", 8)
    head = start + (struct.pack(f"{order}HH", 8, 0) if first == 16 else b"") + struct.pack(f"{order}{place}", first)
    folder = struct.pack(f"{order}{number}", 0)
    second = first + len(folder) + struct.calcsize(f"{order}{place}")

    def chain(after: int) -> bytes:
        last = folder + struct.pack(f"{order}{place}", after)
        return head + folder + struct.pack(f"{order}{place}", second) + last

    assert count_directories(io.BytesIO(chain(0)), 9) == 2
    assert count_directories(io.BytesIO(chain(first)), 9) == 2
    assert count_directories(io.BytesIO(chain(99_999)), 9) == 2
    assert count_directories(io.BytesIO(chain(0)), 1) == 2, "one more than allowed is enough to know"


def test_a_picture_drawn_over_and_over_is_refused() -> None:
    raw = encode(picture([], (3_000, 3_000)), "JPEG", progressive=True)
    assert list(read(raw, "jpeg").scanned) == [1]
    last = raw.rindex(b"\xff\xda")
    with pytest.raises(Suspicious, match="scans"):
        read(raw[:last] + raw[last:-2] * 3_000 + raw[-2:], "jpeg")


def test_too_many_pixels_are_refused_by_the_header_alone() -> None:
    header = struct.pack(">IIBBBBB", 2**30, 2**30, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    raw = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))

    with pytest.raises(TooMuch, match=r"1,073,741,824 × 1,073,741,824 pixels; limits.pixels"):
        read(raw + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT")), "png")


def test_a_large_later_frame_is_refused_when_it_is_drawn() -> None:
    raw = encode(picture([], (60, 40)), "TIFF", save_all=True, append_images=[picture([], (600, 400))])
    with open_pages(io.BytesIO(raw), "image/tiff", 10_000) as drawn:
        assert drawn(1).size == (60, 40)
        with pytest.raises(TooMuch):
            drawn(2)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_off_or_noise_is_corrupt(kind: str) -> None:
    raw = encode(picture([(10, 10, 40, "Text")], (300, 300)), KINDS[kind])
    for broken in (raw[: len(raw) // 2], raw[:12], bytes(range(256))):
        with pytest.raises(
            Corrupt, match=r"damaged: (it cannot be recognised|its end is missing|its content is not an image)"
        ):
            read(broken, kind)


def test_an_unknown_kind() -> None:
    with pytest.raises(Unsupported):
        read(b"", "x-icon")


def test_too_small_for_a_letter() -> None:
    reading = read(encode(Image.new("RGB", (3, 300)), "PNG"), "png")

    assert not reading.scanned
    assert [(page.number, page.text) for page in reading.pages] == [(1, "")]
    assert [gap.reason for gap in reading.gaps] == ["this image is too small to hold text (3 × 300 pixels)"]


def test_it_is_turned_as_the_camera_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert draw(encode(SMALL, "JPEG", exif=exif), "jpeg").size == (100, 200)


def test_transparent_is_white_and_sixteen_bits_are_seen() -> None:
    clear = draw(encode(Image.new("RGBA", (20, 20), (0, 0, 0, 0)), "PNG"), "png")
    deep = Image.new("I;16", (20, 20), 1000)
    deep.putpixel((5, 5), 9000)
    seen = draw(encode(deep, "PNG"), "png")

    assert clear.getpixel((3, 3)) == (255, 255, 255)
    assert (seen.getpixel((3, 3)), seen.getpixel((5, 5))) == ((0, 0, 0), (255, 255, 255))


def test_a_large_image_is_shrunk_but_a_long_strip_stays_readable() -> None:
    assert fit(Image.new("L", (3000, 4000))).size == (1500, LONGEST)
    assert fit(Image.new("L", (2000, 20_000))).size == (SHORTER, 10_000)
    assert fit(Image.new("L", (30, 40))).size == (30, 40)


def test_the_scale_of_a_page_has_bounds() -> None:
    assert drawing_scale(595, 842, 10**8) == pytest.approx(LONGEST / 842)
    assert drawing_scale(10**9, 10**9, 10**8) * 10**9 <= LONGEST
    assert 500 * 700 * drawing_scale(500, 700, 10_000) ** 2 <= 10_001
    assert drawing_scale(200, 100, 10**8) == pytest.approx(200 / 72)


def test_a_strip_is_cut_between_its_lines() -> None:
    strip = picture([(5, 40 * number, 24, f"line {number}") for number in range(50)], (100, 2000))
    pieces = list(cut_strip(strip))

    assert len(pieces) > 5
    assert sum(piece.height for _, piece in pieces) == 2000
    for top, _ in pieces[1:]:
        assert set(strip.crop((0, top, 100, top + 1)).convert("L").tobytes()) == {255}
