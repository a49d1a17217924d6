"""Conversion to PDF by LibreOffice, for formats that no other reader knows; without LibreOffice they are refused.

LibreOffice runs inside the sandbox as a library (LibreOfficeKit, its stable C interface). As a program it would start
processes and listen on a socket in /tmp, and a sandbox may do neither. A sandbox process keeps it loaded for the next such
file; the first one takes about two seconds.
"""

import ctypes
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from penstock.errors import Corrupt, Unsupported
from penstock.extraction.result import ExtractedDocument

_PROGRAMS = ("soffice", "libreoffice")
_LIBRARIES = ("libmergedlo.so", "libsofficeapp.so")  # which of them has it depends on how it was built
_NAMES = {
    "application/vnd.visio": "A Visio drawing",
    "application/vnd.ms-visio.drawing": "A Visio drawing",
    "application/x-mspublisher": "A Publisher file",
    "application/vnd.ms-works": "A Works file",
    "application/vnd.wordperfect": "A WordPerfect file",
    "application/vnd.sun.xml.writer": "A StarOffice file",
    "application/vnd.apple.iwork": "An iWork file (Pages, Numbers, Keynote)",
    "application/x-word-2": "A file of Word before version 6",
    "application/x-mswrite": "A file of Windows Write",
}
# Positions of the functions in their tables, as in LibreOfficeKit.h; the first entry of each table is its size.
DESTROY, LOAD, SAVE_AS = 1, 2, 2


def read_converted(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    library = find_library()
    if library is None:
        what = _NAMES.get(media_type, f"A file of the type {media_type}")
        raise Unsupported(
            f"{what} needs LibreOffice, which is not installed here: install it, or save the file as PDF."
        )
    converted = convert(library, file, str(arguments.get("name", "")))
    from penstock.extraction.pdf.reader import read_pdf

    return replace(read_pdf(io.BytesIO(converted), arguments), media_type=media_type)


def find_library() -> Path | None:
    """Find it next to the program, whose name in the path is a link to it."""
    for program in filter(None, map(shutil.which, _PROGRAMS)):
        for name in _LIBRARIES:
            library = Path(program).resolve().parent / name
            if library.exists():
                return library
    return None


def convert(library: Path, file: BinaryIO, name: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="office-") as folder, _home() as home:
        source, result = Path(folder, "source" + Path(name).suffix[:10].lower()), Path(folder, "result.pdf")
        file.seek(0)
        with source.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        document = _method(_office(library, home), LOAD, ctypes.c_void_p, ctypes.c_char_p)(source.as_uri().encode())
        if document is None:
            raise Corrupt("damaged: LibreOffice cannot open it")
        try:
            save_as = _method(document, SAVE_AS, ctypes.c_int, *[ctypes.c_char_p] * 3)
            save_as(result.as_uri().encode(), b"pdf", None)
        finally:
            _method(document, DESTROY, None)()
        with suppress(FileNotFoundError):
            return result.read_bytes()
        raise Corrupt("damaged: LibreOffice cannot convert it to PDF")


@contextmanager
def _home() -> Iterator[str]:
    """Point the environment to LibreOffice's own folder while it works."""
    before = dict(os.environ)
    folder = _folder()
    os.environ.update(HOME=folder, TMPDIR=folder)
    try:
        yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)


@cache
def _folder() -> str:
    return tempfile.mkdtemp(prefix="kept-office-")  # the sandbox leaves it there (`KEPT`)


@cache
def _office(library: Path, home: str) -> int:
    """LibreOffice, started in this process with a profile of its own."""
    begin = ctypes.CDLL(str(library)).libreofficekit_hook_2
    begin.restype, begin.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_char_p)
    office: int | None = begin(str(library.parent).encode(), Path(home).as_uri().encode())
    if office is None:
        raise Unsupported(
            "The file needs LibreOffice, which is installed here but does not start: save the file as PDF."
        )
    return office


def _method(this: int, place: int, result: Any, *arguments: Any) -> Any:
    """A function of a LibreOfficeKit object: its first word is the address of the table of its functions."""
    table = ctypes.cast(this, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))).contents
    function = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *arguments)(table[place])
    return lambda *given: function(this, *given)
