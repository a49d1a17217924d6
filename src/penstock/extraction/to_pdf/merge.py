"""The task "merge": makes one PDF with an outline of several PDFs, which arrive concatenated in one file.

All documents are first copied into one raw file, object by object; that file is then compressed and gets its outline. So
memory does not grow with pages and images. Named links become direct ones, and form fields get unique names. A document that
cannot be copied is left out with a reason. The result depends only on the documents and their titles.
"""

import io
import re
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO

import pikepdf
from pikepdf import (
    Array,
    Dictionary,
    Name,
    NameTree,
    Object,
    ObjectStreamMode,
    OutlineItem,
    PageCopyWarning,
    Stream,
    StreamDecodeLevel,
    String,
)
from typing_extensions import override

from penstock.errors import Corrupt, NothingInside, Unreadable
from penstock.extraction.pdf.file import DAMAGED, ENCRYPTED
from penstock.extraction.result import refuse_pages
from penstock.extraction.sandbox.protocol import Reply
from penstock.extraction.to_pdf.pdf_writer import PAGES, PdfFile, pieces_of, scratch_file
from penstock.extraction.to_pdf.sanitize import disarm, is_active, reason
from penstock.text import storable

NAME = "merged.pdf"
LONGEST_TITLE = 500
_NO_PLACE = "The document is not in the merged PDF: its place lies outside of the file."
# Strings and names come first, so that nothing inside them is taken for a reference.
_TOKEN = re.compile(rb"\((?:[^\\()]|\\.)*\)|<[0-9a-fA-F]*>|/[^\s/<>()\[\]]*|\b(\d+) (\d+) R\b", re.DOTALL)
# A stream's length is written again, and a claim that its content is in another file is ignored.
_OF_FILES = {"/Length", "/F", "/FFilter", "/FDecodeParms"}

ObjectId = tuple[int, int]


@dataclass(slots=True)
class MergeSource:
    """One of the documents: its place in the file, and the pages that it became."""

    start: int
    size: int
    title: str
    first: int | None = None  # from 1 on
    pages: int = 0
    reason: str = ""  # why it was left out


def merge(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Run the task "merge"."""
    sources = [
        MergeSource(int(one["start"]), int(one["size"]), _tidy(one.get("title"))) for one in arguments["documents"]
    ]
    with scratch_file() as target:
        with scratch_file() as raw:
            pages = _write_raw(file, raw, sources, arguments)
            with pikepdf.open(raw) as merged:
                _describe(merged, sources, _tidy(arguments.get("title")))
                _save(merged, target)
        reply.part({"name": NAME}, pieces_of(target))
    documents = [{"first": one.first, "pages": one.pages, "reason": one.reason} for one in sources]
    return {"pages": pages, "documents": documents}


def _write_raw(file: BinaryIO, raw: BinaryIO, sources: Sequence[MergeSource], arguments: dict[str, Any]) -> int:
    documents = _RawMerge(file, raw)
    for source in sources:
        documents.add(source)
        refuse_pages(len(documents.written.kids), arguments)
    if not documents.written.kids:
        raise NothingInside("None of the documents can be merged into the PDF.")
    documents.finish()
    raw.flush()
    return len(documents.written.kids)


def _describe(merged: pikepdf.Pdf, sources: Sequence[MergeSource], title: str) -> None:
    with merged.open_outline() as outline:
        for number, source in enumerate(sources, 1):
            if source.first is not None:
                outline.root.append(OutlineItem(source.title or f"Document {number}", source.first - 1))
    if title:
        merged.docinfo["/Title"] = title


def _save(document: pikepdf.Pdf, target: BinaryIO) -> None:
    """Streams are saved as they are packed, so that no bomb can expand here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PageCopyWarning)  # of widgets that had no form before, either
        document.save(
            target,
            object_stream_mode=ObjectStreamMode.generate,
            stream_decode_level=StreamDecodeLevel.none,
            deterministic_id=True,
        )
    target.flush()


def _tidy(title: object) -> str:
    return storable(" ".join(str(title or "").split())[:LONGEST_TITLE], "\0")


class _RawMerge:
    """The raw file with all documents: their pages, and the fields of their forms."""

    def __init__(self, file: BinaryIO, target: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        self.written = PdfFile(target)
        self._names: set[str] = set()
        self._fields: list[bytes] = []
        self._form_defaults: dict[str, bytes] = {}  # of fields that have none of their own: the first document's

    def add(self, source: MergeSource) -> None:
        before = len(self.written.kids)
        try:
            self._copy(source)
            source.first, source.pages = before + 1, len(self.written.kids) - before
        except pikepdf.PasswordError:
            source.reason = ENCRYPTED
        except Unreadable as error:
            source.reason = str(error)
        except DAMAGED as error:
            source.reason = f"This PDF is damaged: {reason(error)}."
        if source.reason:
            del self.written.kids[before:]  # their objects stay in the raw file, and are not saved

    def _copy(self, source: MergeSource) -> None:
        if source.start < 0 or source.size <= 0 or source.start + source.size > self._size:
            raise Corrupt(_NO_PLACE)
        with pikepdf.open(FileSlice(self._file, source.start, source.size)) as document:  # type: ignore[arg-type]
            if not len(document.pages):
                raise Corrupt("This PDF has no pages.")
            disarm(document)
            place_links(document)
            fields = name_fields(document, self._names)
            copier = PageCopier(document, self.written)
            copier.copy_pages()
            self._fields += [copier.copy(one) for one in fields]
            form: Any = document.Root.get("/AcroForm", {})
            for key in ("/DR", "/DA"):
                if fields and key in form and key not in self._form_defaults:
                    self._form_defaults[key] = copier.copy(form[key])

    def finish(self) -> None:
        defaults = b"".join(key.encode() + b" " + default for key, default in self._form_defaults.items())
        form = b"/AcroForm<</Fields[%s]%s>>" % (b" ".join(self._fields), defaults)
        self.written.finish(form if self._fields else b"")


class FileSlice(io.RawIOBase):
    """Bytes `start` to `start + size` of a file, with its own position; many slices may share one file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._at

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise ValueError("a place before the beginning")
        self._at = origin + offset
        return self._at

    @override
    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._size - self._at))
        if not length:
            return 0
        self._file.seek(self._start + self._at)
        content = self._file.read(length)
        view[: len(content)] = content
        self._at += len(content)
        return len(content)


def place_links(document: pikepdf.Pdf) -> None:
    """Replace named destinations of links by their places; a name without a place stays, and does nothing."""
    names = document.Root.get("/Names")
    tree = names.get("/Dests") if isinstance(names, Dictionary) else None
    by_string = NameTree(tree) if isinstance(tree, Dictionary) and tree.is_indirect else {}
    by_name: Any = document.Root.get("/Dests", {})
    for page in document.pages:
        notes = page.obj.get("/Annots")
        for note in notes if isinstance(notes, Array) else ():
            if isinstance(note, Dictionary):
                _place(note, "/Dest", by_string, by_name)
                action = note.get("/A")
                if isinstance(action, Dictionary):
                    _place(action, "/D", by_string, by_name)


def _place(owner: Dictionary, key: str, by_string: Any, by_name: Any) -> None:
    destination = owner.get(key)
    found = None
    if isinstance(destination, String):
        found = by_string.get(str(destination))
    elif isinstance(destination, Name):
        found = by_name.get(str(destination))
    if isinstance(found, Dictionary):
        found = found.get("/D")
    if isinstance(found, Array):
        owner[key] = found


def name_fields(document: pikepdf.Pdf, taken: set[str]) -> list[Dictionary]:
    """Return the fields of its form, renamed where another document has the same name."""
    form = document.Root.get("/AcroForm")
    held = form.get("/Fields") if isinstance(form, Dictionary) else None
    fields = [one for one in held if isinstance(one, Dictionary)] if isinstance(held, Array) else []
    for one in fields:
        name, number = str(one.get("/T", "")), 1
        while name in taken:
            number += 1
            name = f"{one.get('/T', '')}+{number}"
        taken.add(name)
        one["/T"] = String(name)
    return fields


class PageCopier:
    """Copies the pages of one document, with all objects that they refer to, into another."""

    def __init__(self, document: pikepdf.Pdf, written: PdfFile) -> None:
        self._document = document
        self._written = written
        self._numbers: dict[ObjectId, int] = {}
        self._waiting: deque[ObjectId] = deque()

    def copy_pages(self) -> None:
        pages = list(self._document.pages)
        for page in pages:  # all of them have a number before anything refers to one
            self._numbers[page.obj.objgen] = self._written.reserve()
        for page in pages:
            page.obj["/Type"] = Name.Page
            text = self._renumbered(_without(page.obj, {"/Parent"}).unparse())
            number = self._numbers[page.obj.objgen]
            self._written.put(b"<</Parent %d 0 R%s" % (PAGES, text[2:]), number)
            self._written.kids.append(number)
            self._copy_waiting()

    def copy(self, held: Object) -> bytes:
        """Copy an object that is not a page, and return the reference to it, or its text."""
        text = b"%d %d R" % held.objgen if held.is_indirect else held.unparse()
        copied = self._renumbered(text)
        self._copy_waiting()
        return copied

    def _copy_waiting(self) -> None:
        while self._waiting:
            key = self._waiting.popleft()
            held = self._document.get_object(key)
            if is_active(held):
                self._written.put(b"null", self._numbers[key])
            elif isinstance(held, Stream):
                entries = self._renumbered(_without(held, _OF_FILES).unparse())
                self._written.put_stream(entries[2:-2], [held.read_raw_bytes()], self._numbers[key])
            else:
                self._written.put(self._renumbered(_text(held)), self._numbers[key])

    def _renumbered(self, text: bytes) -> bytes:
        return _TOKEN.sub(self._refer, text)

    def _refer(self, token: re.Match[bytes]) -> bytes:
        if token[1] is None:
            return token[0]
        key = (int(token[1]), int(token[2]))
        if key not in self._numbers:
            self._numbers[key] = self._written.reserve()
            self._waiting.append(key)
        return b"%d 0 R" % self._numbers[key]


def _text(held: object) -> bytes:
    """Unparse an object; pikepdf returns numbers and booleans as those of Python."""
    if isinstance(held, Object):
        return held.unparse(resolved=True)
    if isinstance(held, bool):
        return b"true" if held else b"false"
    return b"%d" % held if isinstance(held, int) else f"{held:f}".encode() if isinstance(held, Decimal) else b"null"


def _without(held: Object, left_out: set[str]) -> Dictionary:
    """A shallow copy: references stay references."""
    return Dictionary({key: value for key, value in held.items() if key not in left_out})
