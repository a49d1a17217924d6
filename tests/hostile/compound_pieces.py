"""A writer of compound files (OLE2: old Office, Outlook), whose tables of sectors may be spoilt afterwards."""

import struct
from collections.abc import Mapping

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
END, FREE, TABLE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
SECTOR = 512


def compound(
    streams: Mapping[str, bytes], *, links: Mapping[int, int] | None = None, header: Mapping[int, int] | None = None
) -> bytes:
    """Streams below the root, each of whole sectors; `links` replaces entries of the table, `header` numbers of the header.

    Sector 0 is the table, sector 1 (and more) the directory, then come the streams.
    """
    bodies = [body.ljust(8 * SECTOR, b"\0") for body in streams.values()]  # a shorter one would go to the small sectors
    bodies = [body + bytes(-len(body) % SECTOR) for body in bodies]
    entries = [_entry("Root Entry", 5, END, 0, child=1 if streams else FREE)]
    folder_sectors = (len(streams) + 4) // 4
    table = [TABLE, *range(2, folder_sectors + 1), END]
    for number, (name, body) in enumerate(zip(streams, bodies, strict=True), 1):
        first = len(table)
        table += [*range(first + 1, first + len(body) // SECTOR), END]
        entries.append(_entry(name, 2, first, len(body), right=number + 1 if number < len(streams) else FREE))
    for at, to in (links or {}).items():
        table[at] = to
    table += [FREE] * (128 - len(table))
    folder = b"".join(entries).ljust(folder_sectors * SECTOR, b"\0")
    return _header(header or {}) + struct.pack("<128L", *table[:128]) + folder + b"".join(bodies)


def _header(changes: Mapping[int, int]) -> bytes:
    head = bytearray(MAGIC + bytes(16) + struct.pack("<5H", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6))
    head += struct.pack("<9L", 0, 1, 1, 0, 4096, END, 0, END, 0) + struct.pack("<109L", 0, *[FREE] * 108)
    for at, number in changes.items():
        struct.pack_into("<L", head, at, number)
    return bytes(head)


def _entry(name: str, kind: int, start: int, size: int, *, right: int = FREE, child: int = FREE) -> bytes:
    raw = name.encode("utf-16-le")
    head = raw.ljust(64, b"\0") + struct.pack("<HBB3L", len(raw) + 2, kind, 1, FREE, right, child)
    return head + bytes(36) + struct.pack("<LQ", start, size)
