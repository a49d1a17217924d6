"""A zip archive as a container of parts: DOCX, XLSX, PPTX, OpenDocument, EPUB, or just an archive.

Nothing in it is believed. The directory says how large the parts are, and may lie, so whoever hands the file to a library
that unpacks it weighs it first: parts that overlap, grow beyond `limits.expansion`, or are longer than they say are
`Suspicious`.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch

HARMLESS = 64 * 2**20  # what fits into this is no bomb, however well it was packed
_PIECE = 65_536
_BEST_RATIO = 1_032  # deflate cannot do better
LOCKED = "encrypted: a password is needed"
# What the standard library raises for a zip that is not as it should be; a packing that it does not know is a RuntimeError.
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    file.seek(0)
    try:
        return zipfile.ZipFile(file)
    except BROKEN as error:
        raise Corrupt(
            "damaged: its zip directory is missing or broken, the end of the file may have been cut off"
        ) from error


class Package:
    """Parts by name, each read within bounds."""

    def __init__(self, file: BinaryIO, arguments: Mapping[str, Any]) -> None:
        self._file = file
        self._zip = open_zip(file)
        self.size = file.seek(0, 2)
        limits = arguments.get("limits", {})
        self.expansion = int(limits.get("expansion", 200))
        self.allowed = max(HARMLESS, self.expansion * self.size)
        self.all = [
            entry for entry in self._zip.infolist() if not entry.filename.endswith("/")
        ]  # a name may be there twice
        self.entries = {entry.filename: entry for entry in self.all}
        self.names = list(self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def read(self, name: str, most: int | None = None) -> bytes:
        """A part; an absent one is empty."""
        return b"".join(self.pieces(name, most)) if name in self.entries else b""

    def pieces(self, part: str | zipfile.ZipInfo, most: int | None = None) -> Iterator[bytes]:
        """A part in pieces; longer than `most` (or than all of it may become) is `TooMuch`."""
        bound = self.allowed if most is None else most
        entry = self.entries[part] if isinstance(part, str) else part
        name = entry.filename
        if entry.flag_bits & 1:
            raise Encrypted(LOCKED)
        read = 0
        try:
            with self._zip.open(entry) as unpacked:
                while piece := unpacked.read(_PIECE):
                    read += len(piece)
                    if read > bound:
                        raise TooMuch(
                            f"A part of it, {name[:100]!r}, is larger than {bound:,} bytes when it is unpacked."
                        )
                    yield piece
        except BROKEN as error:
            raise Corrupt(f"damaged: its part {name[:100]!r} cannot be unpacked") from error

    def weigh(self) -> None:
        """Refuse what is a bomb before anybody unpacks it whole."""
        entries = self.all
        if any(entry.flag_bits & 1 for entry in entries):
            raise Encrypted(LOCKED)
        if sum(entry.compress_size for entry in entries) > self.size:
            raise Suspicious("a zip bomb: its parts overlap, the same bytes would be unpacked many times")
        self._refuse_above(sum(entry.file_size for entry in entries))
        if self.size * _BEST_RATIO > HARMLESS:
            self._refuse_above(sum(self._unpacked(entry) for entry in entries))

    def _refuse_above(self, unpacked: int) -> None:
        if unpacked > self.allowed:
            raise Suspicious(
                f"a zip bomb: {self.size:,} bytes would become {unpacked:,}, more than {self.expansion} times as much "
                "(limits.expansion)"
            )

    def _unpacked(self, entry: zipfile.ZipInfo) -> int:
        """The true size. Python's own reader stops where the directory says, other libraries do not."""
        if entry.compress_type != zipfile.ZIP_DEFLATED:
            return entry.file_size
        self._file.seek(max(0, entry.header_offset))
        header = self._file.read(30)
        if not header.startswith(b"PK\3\4") or len(header) < 30:
            raise Corrupt("damaged: its zip directory points to the wrong places")
        self._file.seek(sum(struct.unpack("<HH", header[26:30])), 1)
        return _inflated(self._file, entry.compress_size, self.allowed)


def _inflated(file: BinaryIO, packed: int, most: int) -> int:
    inflate, total = zlib.decompressobj(-15), 0
    try:
        while packed > 0 and total <= most and not inflate.eof:
            piece = file.read(min(_PIECE, packed))
            if not piece:
                break
            packed -= len(piece)
            while piece and total <= most and not inflate.eof:
                total += len(inflate.decompress(piece, 2**20))
                piece = inflate.unconsumed_tail
    except zlib.error as error:
        raise Corrupt("damaged: one of its parts cannot be unpacked") from error
    return total
