"""Compound files (OLE2), a small file system in a file: the container of DOC, XLS, PPT, MSG and of encrypted OOXML.

`CompoundFile` reads the tree of names and the bytes of a stream, which is enough to identify a file and to read mail. Chains of
sectors are followed for no more steps than the file has sectors, so that a loop in them ends. `identify_compound` names the
format inside, and refuses encrypted files.
"""

import struct
from dataclasses import dataclass
from typing import BinaryIO

from penstock.errors import Corrupt, Encrypted, Unsupported
from penstock.extraction.office.package import LOCKED

DOC = "application/msword"
XLS = "application/vnd.ms-excel"
PPT = "application/vnd.ms-powerpoint"
MSG = "application/vnd.ms-outlook"
VISIO = "application/vnd.visio"
PUBLISHER = "application/x-mspublisher"
WORKS = "application/vnd.ms-works"
WORDPERFECT = "application/vnd.wordperfect"
HANGUL = "application/x-hwp"

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_END = 0xFFFFFFFA  # this and all above mark ends and free sectors
_NONE = 0xFFFFFFFF
_MOST_ENTRIES = 100_000


@dataclass(slots=True)
class CompoundEntry:
    """A stream or a folder."""

    name: str
    folder: bool
    start: int
    size: int
    left: int
    right: int
    child: int


class CompoundFile:
    """Streams by path (`__attach_version1.0_#00000000/__substg1.0_37010102`); names are compared in lower case."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, 2)
        file.seek(0)
        header = file.read(512)
        if len(header) < 512 or not header.startswith(MAGIC):
            raise Corrupt("damaged: it begins like an old Office file and is cut off")
        shift, small_shift = struct.unpack("<HH", header[30:34])
        if shift not in (9, 12) or not 0 < small_shift < shift:
            raise Corrupt("damaged: its compound file header is wrong")
        self._sector, self._small = 1 << shift, 1 << small_shift
        self._sectors = self.size // self._sector + 1
        directory, self._cutoff, small_table = struct.unpack("<I4xII", header[48:64])
        more = struct.unpack("<I", header[68:72])[0]
        self._table = self._allocation(header, more)
        entries = self._entries(self._chain(directory, self._table))
        self.streams: dict[str, CompoundEntry] = {}
        self._root = entries[0] if entries else CompoundEntry("", True, _NONE, 0, _NONE, _NONE, _NONE)
        self._name(entries)
        self._small_table = self._numbers(self._chain(small_table, self._table))
        self._small_stream: bytes | None = None

    def __contains__(self, path: str) -> bool:
        return path.lower() in self.streams

    def read(self, path: str, most: int | None = None) -> bytes:
        """The bytes of a stream, at most `most` of them; an absent stream is empty."""
        entry = self.streams.get(path.lower())
        if entry is None or entry.folder:
            return b""
        size = entry.size if most is None else min(entry.size, most)
        if entry.size >= self._cutoff:
            return self._join(self._chain(entry.start, self._table, size), size)
        if self._small_stream is None:
            self._small_stream = self._join(
                self._chain(self._root.start, self._table, self._root.size), self._root.size
            )
        stream, step = self._small_stream, self._small
        sectors = self._chain(entry.start, self._small_table)
        return b"".join(stream[sector * step : (sector + 1) * step] for sector in sectors)[:size]

    def folders(self, prefix: str) -> list[str]:
        """Folders at the top whose names begin so."""
        return sorted(p for p, e in self.streams.items() if e.folder and "/" not in p and p.startswith(prefix.lower()))

    def _read_sector(self, number: int) -> bytes:
        self._file.seek((number + 1) * self._sector)
        return self._file.read(self._sector)

    def _join(self, sectors: list[int], size: int) -> bytes:
        return b"".join(self._read_sector(sector) for sector in sectors)[:size]

    def _numbers(self, sectors: list[int]) -> list[int]:
        raw = b"".join(self._read_sector(sector) for sector in sectors)
        return list(struct.unpack(f"<{len(raw) // 4}I", raw[: len(raw) // 4 * 4]))

    def _allocation(self, header: bytes, more: int) -> list[int]:
        """The allocation table: the sector that follows each sector."""
        where = [number for number in struct.unpack("<109I", header[76:512]) if number < _END]
        seen = 0
        while more < _END and seen < self._sectors:
            numbers = self._numbers([more])
            if not numbers:
                break
            where += [number for number in numbers[:-1] if number < _END]
            more, seen = numbers[-1], seen + 1
        return self._numbers([number for number in where[: self._sectors] if number < self._sectors])

    def _chain(self, start: int, table: list[int], size: int | None = None) -> list[int]:
        sectors: list[int] = []
        enough = len(table) if size is None else min(len(table), size // self._sector + 1)
        while start < len(table) and len(sectors) < enough:
            sectors.append(start)
            start = table[start]
        return sectors

    def _entries(self, sectors: list[int]) -> list[CompoundEntry]:
        raw = b"".join(self._read_sector(sector) for sector in sectors[: _MOST_ENTRIES * 128 // self._sector])
        found = []
        for at in range(0, len(raw) - 127, 128):
            length, kind = struct.unpack("<HB", raw[at + 64 : at + 67])
            left, right, child = struct.unpack("<III", raw[at + 68 : at + 80])
            start, size = struct.unpack("<IQ", raw[at + 116 : at + 128])
            name = raw[at : at + max(0, min(length, 64) - 2)].decode("utf-16-le", "replace")
            if self._sector == 512:
                size &= 0xFFFFFFFF  # the upper half is not defined in version 3
            found.append(CompoundEntry(name, kind in (1, 5), start, min(size, self.size), left, right, child))
        return found

    def _name(self, entries: list[CompoundEntry]) -> None:
        """Walk the tree of siblings and children; each entry is visited once, whatever it points at."""
        waiting, seen = [(self._root.child, "")], set[int]()
        while waiting:
            number, above = waiting.pop()
            if number >= len(entries) or number in seen:
                continue
            seen.add(number)
            entry = entries[number]
            path = above + entry.name.lower()
            self.streams[path] = entry
            waiting += [(entry.left, above), (entry.right, above)]
            if entry.folder:
                waiting.append((entry.child, path + "/"))


def identify_compound(file: BinaryIO) -> str:
    tree = CompoundFile(file)
    refuse_protected(tree)
    found = _type_of(tree)
    if found:
        return found
    if any(name.startswith("䡀") for name in tree.streams):  # the packed names of an installer's tables
        raise Unsupported("This is a Windows installer, not a document.")
    if "catalog" in tree:
        raise Unsupported("This is a folder's thumbnail cache (Thumbs.db), not a document.")
    raise Unsupported("This is an old compound file (OLE2) of an unknown program.")


def _type_of(tree: CompoundFile) -> str:
    for stream, media_type in (
        ("worddocument", DOC),
        ("workbook", XLS),
        ("book", XLS),
        ("powerpoint document", PPT),
        ("__properties_version1.0", MSG),
        ("visiodocument", VISIO),
        ("quill", PUBLISHER),
        ("perfectoffice_main", WORDPERFECT),
        ("matost", WORKS),
        ("spellingtable", WORKS),
        ("fileheader", HANGUL),
    ):
        if stream in tree:
            return media_type
    return ""


def refuse_protected(tree: CompoundFile) -> None:
    if "\tdrmcontent" in tree or any("drmencrypted" in name for name in tree.streams):
        raise Encrypted("encrypted: it is protected by rights management (DRM), which only its owner can remove")
    if "encryptedpackage" in tree or "encryptedsummary" in tree:
        raise Encrypted(LOCKED)
    if _word_locked(tree) or _workbook_locked(tree) or _slides_locked(tree):
        raise Encrypted(LOCKED)
    kind = tree.read("__substg1.0_001a001f", 400).decode("utf-16-le", "replace") or tree.read(
        "__substg1.0_001a001e", 200
    ).decode("latin-1")
    if kind.lower().startswith("ipm.note.smime") and "multipartsigned" not in kind.lower():
        raise Encrypted("encrypted: the message can be read only with the key of its recipient (S/MIME)")


def _word_locked(tree: CompoundFile) -> bool:
    header = tree.read("worddocument", 32)
    return len(header) >= 12 and bool(struct.unpack("<H", header[10:12])[0] & 0x0100)


def _workbook_locked(tree: CompoundFile) -> bool:
    book = tree.read("workbook", 8192) or tree.read("book", 8192)
    at = 0
    while at + 4 <= len(book):
        record, length = struct.unpack("<HH", book[at : at + 4])
        if record == 0x2F:
            return True
        if record == 0x85:  # the first sheet is named after the last place for FILEPASS
            return False
        at += 4 + length
    return False


def _slides_locked(tree: CompoundFile) -> bool:
    user = tree.read("current user", 20)
    return len(user) >= 16 and struct.unpack("<I", user[12:16])[0] == 0xF3D1C4DF
