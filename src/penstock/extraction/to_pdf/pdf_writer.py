"""Writes a PDF object by object into a file, so that only the offsets of objects stay in memory.

`scratch_file` is the file that it goes into: without a name, within the limits of the sandbox.
"""

import errno
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from penstock.errors import ResourceLimit, TooMuch

CATALOG, PAGES = 1, 2
PIECE = 2**17  # bytes sent at once


class PdfFile:
    """Objects get their numbers when they are reserved, and their places when they are put."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._places: dict[int, int] = {}
        self._last = PAGES
        self._at = 0
        self.kids: list[int] = []
        self._write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")

    def reserve(self) -> int:
        self._last += 1
        return self._last

    def put(self, content: bytes, number: int | None = None) -> int:
        number = self.reserve() if number is None else number
        self._places[number] = self._at
        self._write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
        return number

    def put_stream(self, entries: bytes, pieces: Iterable[bytes], number: int | None = None) -> int:
        """Its length is an object of its own: it is known when the last piece was written."""
        number, length = self.reserve() if number is None else number, self.reserve()
        self._places[number] = self._at
        self._write(b"%d 0 obj\n<<%s/Length %d 0 R>>\nstream\n" % (number, entries, length))
        begin = self._at
        for piece in pieces:
            self._write(piece)
        size = self._at - begin
        self._write(b"\nendstream\nendobj\n")
        self.put(b"%d" % size, length)
        return number

    def put_packed(self, content: bytes) -> int:
        return self.put_stream(b"/Filter/FlateDecode", [zlib.compress(content)])

    def add_page(self, width: float, height: float, resources: bytes, content: bytes) -> None:
        media_box = b"/MediaBox[0 0 %.2f %.2f]" % (width, height)
        self.kids.append(
            self.put(
                b"<</Type/Page/Parent %d 0 R%s/Resources<<%s>>/Contents %d 0 R>>"
                % (PAGES, media_box, resources, self.put_packed(content))
            )
        )

    def finish(self, catalog: bytes = b"") -> None:
        """Write the page tree, the catalog with these further entries, and the cross-reference table."""
        listed = b" ".join(b"%d 0 R" % number for number in self.kids)
        self.put(b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(self.kids), listed), PAGES)
        self.put(b"<</Type/Catalog/Pages %d 0 R%s>>" % (PAGES, catalog), CATALOG)
        begin, count = self._at, self._last + 1
        self._write(b"xref\n0 %d\n0000000000 65535 f \n" % count)
        for number in range(1, count):
            place = self._places.get(number)
            self._write(b"0000000000 65535 f \n" if place is None else b"%010d 00000 n \n" % place)
        self._write(b"trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, CATALOG, begin))

    def _write(self, piece: bytes) -> None:
        self._target.write(piece)
        self._at += len(piece)


@contextmanager
def scratch_file() -> Iterator[BinaryIO]:
    """Open a temporary file; one that outgrows the sandbox's limit is `TooMuch`."""
    try:
        with tempfile.TemporaryFile(prefix="paper-") as file:
            yield file
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise TooMuch("The document as a PDF is larger than a reader may write (extraction.memory).") from error
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ResourceLimit("The folder for temporary files is full: the PDF cannot be written.") from error
        raise


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece
