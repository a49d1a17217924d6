"""A PDF before it becomes a part of a packet: opened by those who will read it, its pages counted, mended if it must be."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pikepdf
from pypdfium2 import PdfDocument, PdfiumError  # type: ignore[import-untyped]

from penstock.errors import Corrupt, Encrypted, TooMuch
from penstock.extraction.paper.scratch import scratch_file
from penstock.extraction.pdf.bombs import mentions, refuse_bombs
from penstock.extraction.reading import Gap

ENCRYPTED = "encrypted: a password is needed"
REPAIRED = "the file was damaged, and has been repaired: something of it may be missing"
MOST_NAMED = 10
# What pikepdf raises over files that are not as they should be.
DAMAGED = (pikepdf.PdfError, RuntimeError, ValueError, TypeError, LookupError, AttributeError)
logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)
logging.getLogger("pikepdf").setLevel(logging.CRITICAL)


@dataclass(slots=True)
class Checked:
    """A PDF that can be opened: the file as it came, or as it was written anew."""

    file: BinaryIO
    pages: int
    gaps: list[Gap] = field(default_factory=list)


@contextmanager
def check_pdf(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[Checked]:
    most = int(arguments["limits"]["pages"])
    pages, gaps = _look(file, most)
    if pages and _opens(file, pages):
        refuse_bombs(file, pages)
        yield Checked(file, pages, gaps)
        return
    with scratch_file() as mended:
        pages, gaps = _mend(file, mended, most)
        refuse_bombs(mended, pages)
        if not _opens(mended, pages):
            raise Corrupt("This PDF is damaged and cannot be repaired.")
        yield Checked(mended, pages, [*gaps, Gap(None, REPAIRED)])


def _look(file: BinaryIO, most: int) -> tuple[int, list[Gap]]:
    """How many pages it has, and what of it is no page; 0 when it has to be repaired."""
    try:
        file.seek(0)
        with pikepdf.open(file, attempt_recovery=False) as document:
            pages = _count(document, most)
            if any(re.search(r"damaged|reconstruct|recover", warning) for warning in document.get_warnings()):
                return 0, []  # it goes on to search for objects even when it was told not to
            return pages, _left_behind(document)
    except pikepdf.PasswordError:
        raise Encrypted(ENCRYPTED) from None
    except DAMAGED:
        return 0, []


def _mend(file: BinaryIO, target: BinaryIO, most: int) -> tuple[int, list[Gap]]:
    try:
        file.seek(0)
        with pikepdf.open(file) as document:
            pages, gaps = _count(document, most), _left_behind(document)
            if not pages:
                raise Corrupt("This PDF has no pages.")
            if "/Size" not in document.trailer:
                document.trailer["/Size"] = 1  # the right one is written only in the place of another
            document.save(
                target, encryption=False, stream_decode_level=pikepdf.StreamDecodeLevel.none, deterministic_id=True
            )
    except pikepdf.PasswordError:
        raise Encrypted(ENCRYPTED) from None
    except DAMAGED as error:
        if mentions(file, rb"/Encrypt\b"):
            raise Encrypted("encrypted: in a way that cannot be opened here") from None
        raise Corrupt(f"This PDF is damaged and cannot be repaired: {reason(error)}.") from error
    target.flush()
    return pages, gaps


def _count(document: pikepdf.Pdf, most: int) -> int:
    pages = len(document.pages)
    if pages > most:
        raise TooMuch(f"This PDF has {pages:,} pages; limits.pages allows {most:,}.")
    return pages


def _opens(file: BinaryIO, pages: int) -> bool:
    """Whether pdfium opens it, too, and sees as many pages."""
    try:
        document = PdfDocument(file)
    except PdfiumError:
        return False
    try:
        return len(document) == pages
    finally:
        document.close()


def _left_behind(document: pikepdf.Pdf) -> list[Gap]:
    """Files inside of it are not on its pages."""
    try:
        names = sorted(document.attachments.keys())
    except DAMAGED:
        return []
    return name_missing(names, "attached file")


def name_missing(names: list[str], what: str) -> list[Gap]:
    """A gap that says how many and which: "2 attachments are not taken: a.pdf, b.png"."""
    if not names:
        return []
    listed = ", ".join(" ".join(name.split())[:80] for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    said = f"1 {what} is" if len(names) == 1 else f"{len(names):,} {what}s are"
    return [Gap(None, f"{said} not taken: {listed}{more}")]


def reason(error: Exception) -> str:
    """qpdf names a file that nobody knows before it says what is wrong."""
    text = str(error).rpartition(">")[2].rpartition("stream:")[2]
    return " ".join(text.split()).strip(" .:()")[:200] or type(error).__name__
