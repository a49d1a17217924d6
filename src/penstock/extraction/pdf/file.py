"""Opens a PDF with pdfium, repaired by pikepdf if it must be, and refuses small PDFs that expand without end.

Such bombs are forms that draw themselves, forms of forms of forms, and pages that unpack to gigabytes. pdfium follows a form
that draws itself to its own depth limit, which took 3 GB of memory for a file of one kilobyte. The check with pikepdf costs
about a millisecond, and is made only for files that can hold a bomb. It counts the forms that a form's content draws, not
those that its resources list: many producers list everything everywhere.
"""

import io
import logging
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, BinaryIO

import pikepdf
from pypdfium2 import PdfDocument, PdfiumError  # type: ignore[import-untyped]

from penstock.errors import Corrupt, Encrypted, Suspicious

MOST_DRAWN = 100_000  # forms that one page may draw
DEEPEST = 30  # forms in forms
MOST_UNPACKED = 64 * 2**20  # bytes of one content stream
MOST_REPEATED = 2**21  # bytes of one that repeats itself: pdfium keeps half a kilobyte for each `(a) Tj`
REPEATING = 150  # times smaller when packed; a page of drawings becomes ten times smaller
SMALL = MOST_REPEATED // 1032  # what is not larger cannot unpack to more: the most that deflate can do
_CALLS = re.compile(rb"(/[^\s/<>()\[\]{}%]+)\s+Do\b")
# `#` can hide any letter of a name. Dictionaries of streams, forms among them, are never compressed themselves.
_SIGNS = rb"/(?:Form|[Form]*#)|/(?:FlateDecode|Fl)\s*/(?:FlateDecode|Fl)\b"

# Errors of pikepdf for damaged files.
DAMAGED = (pikepdf.PdfError, RuntimeError, ValueError, TypeError, LookupError, AttributeError)
_UNREADABLE = (*DAMAGED, pikepdf.PasswordError, zlib.error)

IN_MEMORY = 64 * 2**20  # bytes: up to here, reading at once is faster by a quarter than calling back for each block
PASSWORD, SECURITY = 4, 5  # FPDF_ERR_*
ENCRYPTED = "encrypted: a password is needed"
# It warns of loops among bookmarks, which it leaves by itself.
logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)

ObjectId = tuple[int, int]


def refuse_bombs(file: BinaryIO, pages: int) -> None:
    size = file.seek(0, 2)
    if size <= SMALL and not mentions(file, _SIGNS):
        return
    file.seek(0)
    try:
        with pikepdf.open(file) as document:
            counter = _FormCounter()
            for page in islice(document.pages, pages):
                with suppress(*_UNREADABLE):  # a broken page must not hide the others
                    counter.check_page(page)
    except _UNREADABLE:
        return  # damaged or encrypted: pdfium may still read it, within the sandbox's limits


def mentions(file: BinaryIO, sign: bytes) -> bool:
    """Whether a pattern matches the file's bytes, uncompressed as they are."""
    file.seek(0)
    ending = b""
    while piece := file.read(2**20):
        if re.search(sign, ending + piece):
            return True
        ending = piece[-32:]
    return False


class _FormCounter:
    """Counts what pages and forms draw: each form once for each owner of the resources that it uses."""

    def __init__(self) -> None:
        self.drawn: dict[tuple[ObjectId, ObjectId], int] = {}
        self.forms: dict[ObjectId, dict[str, Any]] = {}

    def check_page(self, page: pikepdf.Page) -> None:
        contents = list(_contents(page.obj))
        for content in contents:
            _check_size(content)
        forms = self._forms_of(page.obj.objgen, page.resources)
        weights = {name: self._weigh(form, page.obj.objgen, ()) for name, form in forms.items()}
        if any(weight > 1 for weight in weights.values()):
            calls = [_called(content) for content in contents]
            _check_drawn(sum(times * weights.get(name, 0) for each in calls for name, times in each.items()))

    def _weigh(self, form: Any, owner: ObjectId, path: tuple[ObjectId, ...]) -> int:
        """The number of forms that it draws, itself included."""
        if form.objgen in path:
            raise Suspicious("A form of this PDF draws itself, without end.")
        if len(path) >= DEEPEST:
            raise Suspicious(f"This PDF has forms inside of forms, more than {DEEPEST} deep.")
        if "/Resources" in form:  # without its own, it uses those of the page or form that draws it
            owner = form.objgen
        key = (form.objgen, owner)
        if key not in self.drawn:
            _check_size(form)
            forms = self._forms_of(owner, form.get("/Resources"))
            weight = 1
            for name, times in (_called(form) if forms else Counter[str]()).items():
                if name in forms:
                    weight += times * self._weigh(forms[name], owner, (*path, form.objgen))
            self.drawn[key] = _check_drawn(weight)
        return self.drawn[key]

    def _forms_of(self, owner: ObjectId, resources: Any) -> dict[str, Any]:
        if owner not in self.forms:
            shared = resources.objgen if resources is not None else (0, 0)
            if shared == (0, 0) or shared not in self.forms:  # pages often share one dictionary of thousands
                things = resources.get("/XObject", {}) if resources is not None else {}
                self.forms[shared] = {
                    name: thing
                    for name, thing in things.items()
                    if isinstance(thing, pikepdf.Stream) and thing.get("/Subtype") == "/Form"
                }
            self.forms[owner] = self.forms[shared]
        return self.forms[owner]


def _check_drawn(number: int) -> int:
    if number > MOST_DRAWN:
        raise Suspicious(f"One page of this PDF draws more than {MOST_DRAWN:,} forms.")
    return number


def _contents(page: Any) -> Iterator[Any]:
    held = page.get("/Contents")
    if isinstance(held, pikepdf.Array):
        yield from held
    elif held is not None:
        yield held


def _called(content: Any) -> Counter[str]:
    return Counter(match[1].decode("latin-1") for match in _CALLS.finditer(content.read_bytes()))


def _check_size(content: Any) -> None:
    """Unpack at most as much as is allowed; other filters than deflate hardly expand anything."""
    packed = content.read_raw_bytes()
    held = content.get("/Filter")
    filters = list(held) if isinstance(held, pikepdf.Array) else [held] if held is not None else []
    if len(packed) <= SMALL and len(filters) < 2:
        return
    size = len(packed)
    for name in filters:
        if name not in {"/FlateDecode", "/Fl"}:
            return
        packed = zlib.decompressobj().decompress(packed, MOST_UNPACKED + 1)
        if len(packed) > MOST_UNPACKED:
            raise Suspicious(f"A page of this PDF unpacks to more than {MOST_UNPACKED // 2**20} MB.")
        if len(packed) > MOST_REPEATED and len(packed) > REPEATING * size:
            raise Suspicious(f"A page of this PDF repeats itself over and over: {size:,} bytes become {len(packed):,}.")


@contextmanager
def open_pdf(file: BinaryIO) -> Iterator[PdfDocument]:
    """Open a document with at least one page."""
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
    """`refusal` is pdfium's error code, which alone proves nothing: it may be left over from the document before."""
    written = io.BytesIO()
    file.seek(0)
    try:
        with pikepdf.open(file) as damaged:
            if not len(damaged.pages):
                raise Corrupt("This PDF has no pages.")
            damaged.save(written, encryption=False)
        return _load(written)
    except pikepdf.PasswordError:
        raise Encrypted(ENCRYPTED) from None
    except (pikepdf.PdfError, PdfiumError, RuntimeError, ValueError, TypeError, KeyError) as error:
        if refusal in {PASSWORD, SECURITY} and mentions(file, rb"/Encrypt\b"):
            raise Encrypted("encrypted: in a way that cannot be opened here") from None
        raise Corrupt(f"This PDF is damaged and cannot be repaired: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    """The error of qpdf without the name of its file object."""
    text = re.sub(r"<_io[^>]*>[^:]*:|^[^:]*\bstream\b[^:]*:", "", str(error)).strip(" .:()\n")
    return " ".join(text.split())[:200] or type(error).__name__
