"""Makes a PDF fit for a packet: `check_pdf` opens it with both libraries and repairs it, `disarm` removes active content.

Active content is what a PDF could do by itself: scripts, programs, embedded files, media. It is removed from the copy in
memory, before its pages go into another PDF.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream
from pypdfium2 import PdfDocument, PdfiumError  # type: ignore[import-untyped]

from penstock.errors import Corrupt, Encrypted, TooMuch
from penstock.extraction.pdf.file import DAMAGED, ENCRYPTED, mentions, refuse_bombs
from penstock.extraction.result import Gap
from penstock.extraction.to_pdf.pdf_writer import scratch_file

REPAIRED = "the file was damaged and has been repaired: parts of it may be missing"
MOST_NAMED = 10
logging.getLogger("pikepdf").setLevel(logging.CRITICAL)
_SAFE_ACTIONS = {"/GoTo", "/URI", "/Named"}
_ACTIVE_NOTES = {"/FileAttachment", "/RichMedia", "/Screen", "/Movie", "/Sound", "/3D"}
_ACTIVE_ACTIONS = {
    *("/JavaScript", "/Launch", "/SubmitForm", "/ImportData", "/GoToR", "/GoToE", "/Rendition", "/Movie", "/Sound"),
    *("/RichMediaExecute", "/GoTo3DView"),
}
_WEB = ("http:", "https:", "mailto:")
# Besides active content: parts of trees that are not copied, and files that belong to a page.
_PAGE_KEYS = ("/AA", "/AF", "/B", "/PieceInfo", "/StructParents")
_NOTE_KEYS = ("/AA", "/AF", "/FS", "/StructParent")
_DEEPEST = 100


@dataclass(slots=True)
class CheckedPdf:
    """A PDF that can be opened: the file as it was uploaded, or repaired."""

    file: BinaryIO
    pages: int
    gaps: list[Gap] = field(default_factory=list)


@contextmanager
def check_pdf(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[CheckedPdf]:
    most = int(arguments["limits"]["pages"])
    pages, gaps = _inspect(file, most)
    if pages and _opens(file, pages):
        refuse_bombs(file, pages)
        yield CheckedPdf(file, pages, gaps)
        return
    with scratch_file() as repaired:
        pages, gaps = _repair(file, repaired, most)
        refuse_bombs(repaired, pages)
        if not _opens(repaired, pages):
            raise Corrupt("This PDF is damaged and cannot be repaired.")
        yield CheckedPdf(repaired, pages, [*gaps, Gap(None, REPAIRED)])


def _inspect(file: BinaryIO, most: int) -> tuple[int, list[Gap]]:
    """The number of its pages, 0 when it has to be repaired, and gaps for its attached files."""
    try:
        file.seek(0)
        with pikepdf.open(file, attempt_recovery=False) as document:
            pages = _count(document, most)
            if any(re.search(r"damaged|reconstruct|recover", warning) for warning in document.get_warnings()):
                return 0, []  # it searches for objects even when that is switched off
            return pages, _attached_files(document)
    except pikepdf.PasswordError:
        raise Encrypted(ENCRYPTED) from None
    except DAMAGED:
        return 0, []


def _repair(file: BinaryIO, target: BinaryIO, most: int) -> tuple[int, list[Gap]]:
    try:
        file.seek(0)
        with pikepdf.open(file) as document:
            pages, gaps = _count(document, most), _attached_files(document)
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
        with closing(PdfDocument(file)) as document:
            return len(document) == pages
    except PdfiumError:
        return False


def _attached_files(document: pikepdf.Pdf) -> list[Gap]:
    """A gap for the files attached to it, which are not on its pages."""
    try:
        names = sorted(document.attachments.keys())
    except DAMAGED:
        return []
    return name_missing(names, "attached file")


def name_missing(names: list[str], what: str) -> list[Gap]:
    """A gap with their number and names: "2 attachments are left out: a.pdf, b.png"."""
    if not names:
        return []
    listed = ", ".join(" ".join(name.split())[:80] for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    subject = f"1 {what} is" if len(names) == 1 else f"{len(names):,} {what}s are"
    return [Gap(None, f"{subject} left out: {listed}{more}")]


def reason(error: Exception) -> str:
    """The error of qpdf without the name of its file object."""
    text = str(error).rpartition(">")[2].rpartition("stream:")[2]
    return " ".join(text.split()).strip(" .:()")[:200] or type(error).__name__


# -- active content ---------------------------------------------------------------------------------------------------------


def disarm(document: pikepdf.Pdf) -> None:
    """Remove active content in memory; the file itself stays as it is."""
    for page in document.pages:
        _drop(page.obj, _PAGE_KEYS)
        notes = page.obj.get("/Annots")
        if notes is None:
            continue
        kept = [note for note in _items(notes) if isinstance(note, Dictionary) and _harmless(note)]
        for note in kept:
            for one in _ancestry(note):
                _disarm_note(one)
        page.obj["/Annots"] = Array(kept)
    form = document.Root.get("/AcroForm")
    if isinstance(form, Dictionary):
        _drop(form, ("/XFA", "/SigFlags", "/CO"))
        for one in _fields(form.get("/Fields"), set(), 0):
            _disarm_note(one)


def is_active(held: Any) -> bool:
    """Whether an object acts by itself or is a file, however it is referred to."""
    if not isinstance(held, Dictionary | Stream):
        return False
    return str(held.get("/S")) in _ACTIVE_ACTIONS or str(held.get("/Type")) in {"/EmbeddedFile", "/Filespec"}


def _harmless(note: Dictionary) -> bool:
    return str(note.get("/Subtype")) not in _ACTIVE_NOTES


def _disarm_note(note: Dictionary) -> None:
    _drop(note, _NOTE_KEYS)
    for key in ("/A", "/PA"):
        action = note.get(key)
        if action is None:
            continue
        if isinstance(action, Dictionary) and _is_safe(action):
            _drop(action, ("/Next",))
        else:
            del note[key]
    if note.get("/FT") == Name.Sig:
        _drop(note, ("/V", "/Lock", "/SV"))


def _ancestry(note: Any) -> Iterator[Dictionary]:
    """A note, the field that it shows, and the fields above that."""
    for _ in range(_DEEPEST):
        if not isinstance(note, Dictionary):
            return
        yield note
        note = note.get("/Parent")


def _is_safe(action: Dictionary) -> bool:
    kind = str(action.get("/S"))
    if kind == "/URI":
        return str(action.get("/URI", "")).strip().lower().startswith(_WEB)
    return kind in _SAFE_ACTIONS


def _fields(fields: Any, seen: set[tuple[int, int]], depth: int) -> Iterator[Dictionary]:
    for one in _items(fields):
        if not isinstance(one, Dictionary) or depth > _DEEPEST:
            continue
        if one.is_indirect:
            if one.objgen in seen:
                continue
            seen.add(one.objgen)
        yield one
        yield from _fields(one.get("/Kids"), seen, depth + 1)


def _items(held: Any) -> list[Any]:
    return list(held) if isinstance(held, Array) else []


def _drop(held: Any, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key in held:
            del held[key]
