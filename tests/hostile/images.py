"""Images: more pixels than memory, frames without number, loops of folders, and profiles that swell."""

import struct
import zlib
from collections.abc import Iterator

from penstock.errors import ResourceLimit, Suspicious, TooMuch, Unreadable
from tests.hostile.file import File, either, failed
from tests.hostile.good import picture
from tests.hostile.pieces import zlib_bomb

LARGE = (TooMuch, Suspicious)
TOO_LARGE = (*LARGE, ResourceLimit)


def files() -> Iterator[File]:
    yield from pngs()
    yield from jpegs()
    yield from tiffs()
    yield from moving()
    yield from others()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def png(width: int, height: int, body: bytes, *before: bytes, bits: int = 1, colour: int = 0) -> bytes:
    head = chunk(b"IHDR", struct.pack(">2L5B", width, height, bits, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(before) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def pngs() -> Iterator[File]:
    small = picture("PNG")
    text = chunk(b"zTXt", b"Comment\0\0" + zlib_bomb(300))
    profile = chunk(b"iCCP", b"evil\0\0" + zlib_bomb(300))
    nine = zlib.compress(bytes(27))

    def film(frames: int) -> bytes:  # an animated PNG
        def control(number: int) -> bytes:
            return chunk(b"fcTL", struct.pack(">5L2H2B", number, 9, 9, 0, 0, 1, 10, 0, 0))

        shown = [control(2 * n - 1) + chunk(b"fdAT", struct.pack(">L", 2 * n) + nine) for n in range(1, frames)]
        still = png(9, 9, nine, chunk(b"acTL", struct.pack(">2L", frames, 0)), control(0))
        return still[:-12] + b"".join(shown) + still[-12:]

    yield failed("png-2-gigapixels.png", lambda: png(50_000, 50_000, zlib_bomb(300, b"\0")), *LARGE, says="pixels")
    yield failed("png-claims-all-pixels.png", lambda: png(2**31 - 1, 2**31 - 1, nine), Unreadable)
    yield failed(
        "png-400-megapixels-of-64-bits.png",
        lambda: png(20_000, 20_000, zlib_bomb(50, b"\0"), bits=16, colour=6),
        *LARGE,
    )
    yield either("png-just-below-the-limit.png", lambda: png(9_900, 9_900, zlib.compress(bytes(9_900 * (1 + 1_238)))))
    yield either("png-one-line.png", lambda: png(900_000, 1, zlib.compress(bytes(112_501))))
    yield either("png-one-column.png", lambda: png(1, 900_000, zlib.compress(bytes(1_800_000))))
    yield either("png-one-pixel.png", lambda: png(1, 1, zlib.compress(b"\0\0")))
    yield failed("png-no-pixels.png", lambda: png(0, 0, b""), Unreadable)
    yield either("png-comment-swells.png", lambda: small[:33] + text + small[33:])
    yield either("png-profile-swells.png", lambda: small[:33] + profile + small[33:])
    yield either("png-30000-chunks.png", lambda: small[:33] + chunk(b"tEXt", b"a\0b") * 30_000 + small[33:])
    yield either("png-3000-frames.png", lambda: film(3_000))
    yield either("png-wrong-sums.png", lambda: small[:29] + b"\0\0\0\0" + small[33:])
    yield either("png-data-too-short.png", lambda: png(3_000, 3_000, zlib.compress(bytes(1_000))))


def jpegs() -> Iterator[File]:
    small = picture("JPEG")
    frame = small.index(b"\xff\xc0")

    def sized(width: int, height: int) -> bytes:
        return small[: frame + 5] + struct.pack(">2H", height, width) + small[frame + 9 :]

    def segment(kind: int, body: bytes) -> bytes:
        return b"\xff" + bytes([kind]) + struct.pack(">H", len(body) + 2) + body

    def scans() -> bytes:  # a progressive picture of 36 megapixels whose scans go on and on
        scan = b"\xff\xda\0\x08\1\1\0\0\0\x01" + b"\0"
        table = segment(0xC4, b"\0" + bytes([1, *[0] * 15]) + b"\0")
        head = b"\xff\xd8" + segment(0xC2, b"\x08" + struct.pack(">2H", 6_000, 6_000) + b"\1\1\x11\0")
        return head + segment(0xDB, b"\0" + b"\1" * 64) + table + scan * 5_000 + b"\xff\xd9"

    exif = b"Exif\0\0II*\0\x08\0\0\0"
    loop = exif + struct.pack("<H2HLLL", 1, 0x8769, 4, 1, 8, 8)  # its folder of details, and the next one, are itself
    claim = exif + struct.pack("<H2HLLL", 1, 0x9286, 7, 2**32 - 1, 8, 0)
    turn = exif + struct.pack("<H2HLLL", 1, 0x0112, 3, 1, 99, 0)
    profile = b"".join(segment(0xE2, b"ICC_PROFILE\0" + bytes([n, 255]) + b"\xff" * 1_000) for n in range(1, 256))
    yield failed("jpeg-claims-65500-by-65500.jpg", lambda: sized(65_500, 65_500), *LARGE, says="pixels")
    yield either("jpeg-claims-9000-by-9000.jpg", lambda: sized(9_000, 9_000))
    yield failed("jpeg-no-pixels.jpg", lambda: sized(0, 0), Unreadable)
    yield failed("jpeg-5000-scans.jpg", scans, Suspicious)
    yield either("jpeg-details-loop.jpg", lambda: small[:2] + segment(0xE1, loop) + small[2:])
    yield either("jpeg-details-of-four-gigabytes.jpg", lambda: small[:2] + segment(0xE1, claim) + small[2:])
    yield either("jpeg-turned-99.jpg", lambda: small[:2] + segment(0xE1, turn) + small[2:])
    yield either("jpeg-9-details.jpg", lambda: small[:2] + segment(0xE1, exif + b"\xff" * 30_000) * 9 + small[2:])
    yield either("jpeg-profile-in-255-pieces.jpg", lambda: small[:2] + profile + small[2:])
    yield failed("jpeg-only-a-start.jpg", lambda: b"\xff\xd8\xff\xe0", Unreadable)
    yield either("jpeg-200000-fill-bytes.jpg", lambda: small[:2] + b"\xff" * 200_000 + small[2:])


def tiff(*tags: tuple[int, int, int, int], after: int = 0, more: bytes = b"") -> bytes:
    """One folder of tags (number, type, count, value), and the place of the next folder."""
    body = b"".join(struct.pack("<2HLL", *tag) for tag in tags)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + body + struct.pack("<L", after) + more


def tiffs() -> Iterator[File]:
    def page(
        width: int, height: int, *, packed: int = 1, offset: int = 8, size: int = 100
    ) -> tuple[tuple[int, int, int, int], ...]:
        return (
            (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 1), (259, 3, 1, packed), (262, 3, 1, 1), (273, 4, 1, offset),
            (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, size),
        )  # fmt: skip

    def many() -> bytes:  # 6,000 folders, one after the other
        folders, size = [], 2 + 12 * 9 + 4
        for n in range(6_000):
            following = 8 + (n + 1) * size if n < 5_999 else 0
            folders.append(tiff(*page(8, 8), after=following)[8:])
        return b"II*\0\x08\0\0\0" + b"".join(folders)

    yield failed("tiff-4-gigapixels.tif", lambda: tiff(*page(65_000, 65_000)), *LARGE)
    yield either("tiff-next-folder-is-itself.tif", lambda: tiff(*page(64, 64), after=8, more=bytes(600)))
    yield failed("tiff-6000-folders.tif", many, TooMuch)
    yield either("tiff-strip-beyond-the-end.tif", lambda: tiff(*page(640, 640, offset=99_999_999, size=51_200)))
    yield either(
        "tiff-strips-without-number.tif",
        lambda: tiff(*page(640, 640)[:5], (273, 4, 2**32 - 1, 8), (279, 4, 2**32 - 1, 8)),
    )
    yield either("tiff-lzw-of-nothing.tif", lambda: tiff(*page(9_000, 9_000, packed=5, size=2**31)))
    yield either("tiff-fax-of-nothing.tif", lambda: tiff(*page(9_000, 9_000, packed=4, size=200), more=b"\xff" * 200))
    yield failed("tiff-unknown-packing.tif", lambda: tiff(*page(64, 64, packed=60_000)), Unreadable)
    yield failed("tiff-without-tags.tif", tiff, Unreadable)
    yield failed(
        "tiff-big-claims.tif", lambda: b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0" + b"\xff" * 8 + bytes(200), Unreadable
    )
    yield either("tiff-folder-beyond-the-end.tif", lambda: b"II*\0\xff\xff\xff\x7f", Unreadable)


def moving() -> Iterator[File]:
    def gif(width: int, height: int, frames: int) -> bytes:
        head = b"GIF89a" + struct.pack("<2H3B", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
        frame = b"\x21\xf9\4\0\0\0\0\0" + b"\x2c" + struct.pack("<4HB", 0, 0, 1, 1, 0) + b"\2\2\x44\x01\0"
        return head + frame * frames + b"\x3b"

    def webp(frames: int) -> bytes:
        still = picture("WEBP", 16, 16)[12:]
        frame = b"\0\0\0\0\0\0" + b"\x0f\0\0" * 2 + b"\x0a\0\0\0" + still
        body = (
            b"WEBPVP8X"
            + struct.pack("<L", 10)
            + b"\2\0\0\0"
            + b"\x0f\0\0" * 2
            + b"ANIM"
            + struct.pack("<L", 6)
            + bytes(6)
        )
        body += (b"ANMF" + struct.pack("<L", len(frame)) + frame + bytes(len(frame) % 2)) * frames
        return b"RIFF" + struct.pack("<L", len(body)) + body

    def canvas() -> bytes:
        body = b"WEBPVP8X" + struct.pack("<L", 10) + b"\0\0\0\0" + b"\xff\xff\xff" * 2 + picture("WEBP", 16, 16)[12:]
        return b"RIFF" + struct.pack("<L", len(body)) + body

    yield either("gif-10000-frames.gif", lambda: gif(9, 9, 10_000))
    yield failed("gif-65535-by-65535.gif", lambda: gif(65_535, 65_535, 3), *LARGE)
    yield failed("gif-without-frames.gif", lambda: gif(9, 9, 0), Unreadable)
    yield either("gif-blocks-without-an-end.gif", lambda: gif(99, 99, 1)[:-3] + b"\xff" * 200_000)
    yield either("webp-5000-frames.webp", lambda: webp(5_000))
    yield either("webp-claims-a-canvas.webp", canvas)
    yield failed("webp-only-a-header.webp", lambda: b"RIFF\xff\xff\xff\x7fWEBPVP8 ", Unreadable)


def others() -> Iterator[File]:
    def bmp(width: int, height: int, body: bytes, *, bits: int = 24, packed: int = 0) -> bytes:
        head = struct.pack("<LllHHLLllLL", 40, width, height, 1, bits, packed, len(body), 0, 0, 0, 0)
        palette = bytes(1024) if bits == 8 else b""
        start = 14 + len(head) + len(palette)
        return b"BM" + struct.pack("<LHHL", start + len(body), 0, 0, start) + head + palette + body

    yield failed("bmp-claims-all-pixels.bmp", lambda: bmp(2**31 - 1, 2**31 - 1, bytes(99)), Unreadable)
    yield failed("bmp-2-gigapixels.bmp", lambda: bmp(50_000, 50_000, bytes(99)), *LARGE)
    yield either("bmp-packed-bomb.bmp", lambda: bmp(9_000, 9_000, b"\xff\0" * 100_000, bits=8, packed=1))
    yield either("bmp-height-is-negative.bmp", lambda: bmp(64, -64, bytes(99)))
    yield either("bmp-jumps-around.bmp", lambda: bmp(9_000, 9_000, b"\0\2\xff\xff" * 50_000, bits=8, packed=1))
    yield failed("icon.ico", lambda: b"\0\0\1\0\xff\xff" + bytes(200), Unreadable)
    yield failed(
        "photoshop.psd",
        lambda: b"8BPS\0\1" + bytes(6) + b"\0\3\xff\xff\xff\xff\xff\xff\xff\xff" + bytes(99),
        Unreadable,
    )
