"""Opening a PDF: with pdfium, or with pdfium after pikepdf has written it anew.

Opening reads no page, and is safe also for bombs (pdf_bombs.py).
"""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pikepdf
from pypdfium2 import PdfDocument, PdfiumError  # type: ignore[import-untyped]

from penstock.errors import Corrupt, Encrypted
from penstock.extraction.pdf.bombs import mentions

IN_MEMORY = 64 * 2**20  # up to here, reading at once is faster by a quarter than calling back for each block
PASSWORD, SECURITY = 4, 5  # FPDF_ERR_*
# It warns of loops among bookmarks, which it leaves by itself.
logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)


@contextmanager
def open_pdf(file: BinaryIO) -> Iterator[PdfDocument]:
    """A document with at least one page."""
    document = _load_or_repair(file)
    try:
        yield document
    finally:
        document.close()


def _load_or_repair(file: BinaryIO) -> PdfDocument:
    try:
        document = _load(file)
    except PdfiumError as refusal:
        return _repaired(file, refusal.err_code)
    if len(document):
        return document
    document.close()
    return _repaired(file, None)


def _load(file: BinaryIO) -> PdfDocument:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return PdfDocument(file.read() if size <= IN_MEMORY else file)


def _repaired(file: BinaryIO, refusal: int | None) -> PdfDocument:
    """pdfium's code of a refusal alone proves nothing: after some failures it still is that of the document before."""

    written = io.BytesIO()
    file.seek(0)
    try:
        with pikepdf.open(file) as damaged:
            if not len(damaged.pages):
                raise Corrupt("This PDF has no pages.")
            damaged.save(written, encryption=False)
        return _load(written)
    except pikepdf.PasswordError:
        raise Encrypted("encrypted: a password is needed") from None
    except (pikepdf.PdfError, PdfiumError, RuntimeError, ValueError, TypeError, KeyError) as error:
        if refusal in {PASSWORD, SECURITY} and mentions(file, rb"/Encrypt\b"):
            raise Encrypted("encrypted: in a way that cannot be opened here") from None
        raise Corrupt(f"This PDF is damaged and cannot be repaired: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    """qpdf says `description: what is wrong`, with a file name that nobody knows."""
    text = re.sub(r"<_io[^>]*>[^:]*:|^[^:]*\bstream\b[^:]*:", "", str(error)).strip(" .:()\n")
    return " ".join(text.split())[:200] or type(error).__name__
