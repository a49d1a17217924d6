"""Parts of hostile files: streams that swell, and archives whose bytes are always the same."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable

MEGABYTE = 2**20
Members = Iterable[tuple[str, bytes]]


def swelling(block: bytes, times: int) -> bytes:
    """A raw deflate stream of `block`, so many times, made at the cost of one: each copy starts afresh."""
    first = zlib.compressobj(9, zlib.DEFLATED, -15)
    copy = first.compress(block) + first.flush(zlib.Z_FULL_FLUSH)
    return copy * times + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def zlib_bomb(megabytes: int, fill: bytes = b" ") -> bytes:
    """With a wrong sum at its end, which nobody should ever reach."""
    return b"\x78\x9c" + swelling(fill * (MEGABYTE // len(fill)), megabytes) + b"\0\0\0\0"


def zip_of(members: Members) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            entry = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return made.getvalue()


def local_header(name: bytes, method: int, packed: int, size: int, *, flags: int = 0, crc: int = 0) -> bytes:
    """What stands before a member, with whatever it may claim."""
    return struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, crc, packed, size, len(name), 0) + name


def central_entry(
    name: bytes, method: int, packed: int, size: int, *, flags: int = 0, at: int = 0, crc: int = 0, mode: int = 0
) -> bytes:
    """What the directory at the end says about a member."""
    head = struct.pack("<4s6H3L", b"PK\1\2", 0x0314, 20, flags, method, 0, 33, crc, packed, size)
    return head + struct.pack("<5H2L", len(name), 0, 0, 0, 0, mode << 16, at) + name


def directory(entries: bytes, count: int, at: int) -> bytes:
    return entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, min(count, 65535), min(count, 65535), len(entries), at, 0)


def zip_claiming(name: bytes, body: bytes, size: int, *, method: int = 8, flags: int = 0, crc: int = 0) -> bytes:
    """One member whose size, method and flags are claims."""
    start = local_header(name, method, len(body), size, flags=flags, crc=crc) + body
    return start + directory(central_entry(name, method, len(body), size, flags=flags, crc=crc), 1, len(start))


def zip_with_bomb(members: Members, name: str, block: bytes, times: int) -> bytes:
    """An archive like any other, but for one member that swells to `times` blocks."""
    body, raw = swelling(block, times), name.encode()
    crc = 0
    for _ in range(times):
        crc = zlib.crc32(block, crc)
    parts, entries, at = [], [], 0
    for title, content in members:
        packed = swelling(content, 1)
        sums = zlib.crc32(content)
        part = local_header(title.encode(), 8, len(packed), len(content), crc=sums) + packed
        entries.append(central_entry(title.encode(), 8, len(packed), len(content), at=at, crc=sums))
        parts.append(part)
        at += len(part)
    last = local_header(raw, 8, len(body), len(block) * times, crc=crc) + body
    entries.append(central_entry(raw, 8, len(body), len(block) * times, at=at, crc=crc))
    return b"".join([*parts, last, directory(b"".join(entries), len(entries), at + len(last))])
