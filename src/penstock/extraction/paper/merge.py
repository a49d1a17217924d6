"""The task "merge": several PDFs, one behind the other in one file, become one PDF with an outline of them.

First all of them are written into one file, an object at a time; then that is written anew, packed and with its outline. So
memory does not grow with pages and images. A document that cannot be taken is left out with its reason, and the others go
on. The result depends on the documents and their titles only: no dates, no chance.
"""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pikepdf
from pikepdf import ObjectStreamMode, OutlineItem, PageCopyWarning, StreamDecodeLevel

from penstock.errors import Corrupt, NothingInside, Unreadable
from penstock.extraction.draft import refuse_pages
from penstock.extraction.paper.anchors import name_fields, place_links
from penstock.extraction.paper.bundle import Slice
from penstock.extraction.paper.checked import DAMAGED, ENCRYPTED, reason
from penstock.extraction.paper.copying import Copier
from penstock.extraction.paper.harm import disarm
from penstock.extraction.paper.pdffile import PdfFile
from penstock.extraction.paper.scratch import Reply, pieces_of, scratch_file

NAME = "merged.pdf"
LONGEST_TITLE = 500
_NO_PLACE = "It is not in the bundle: its place lies outside of the file."


@dataclass(slots=True)
class Source:
    """One of the documents: where it lies, and where its pages went."""

    start: int
    size: int
    title: str
    first: int | None = None  # from 1 on
    pages: int = 0
    reason: str = ""  # why it is not there


class _Raw:
    """All documents in one file, as it grows: pages one behind the other, and the fields of their forms."""

    def __init__(self, file: BinaryIO, target: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        self.written = PdfFile(target)
        self._names: set[str] = set()
        self._fields: list[bytes] = []
        self._looks: dict[str, bytes] = {}  # of fields that have none of their own: the first document's

    def add(self, source: Source) -> None:
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
            del self.written.kids[before:]  # what they refer to stays behind, and is not written again

    def _copy(self, source: Source) -> None:
        if source.start < 0 or source.size <= 0 or source.start + source.size > self._size:
            raise Corrupt(_NO_PLACE)
        with pikepdf.open(Slice(self._file, source.start, source.size)) as document:  # type: ignore[arg-type]
            if not len(document.pages):
                raise Corrupt("This PDF has no pages.")
            disarm(document)
            place_links(document)
            fields = name_fields(document, self._names)
            copier = Copier(document, self.written)
            copier.copy_pages()
            self._fields += [copier.copy(one) for one in fields]
            form: Any = document.Root.get("/AcroForm", {})
            for key in ("/DR", "/DA"):
                if fields and key in form and key not in self._looks:
                    self._looks[key] = copier.copy(form[key])

    def finish(self) -> None:
        looks = b"".join(key.encode() + b" " + look for key, look in self._looks.items())
        form = b"/AcroForm<</Fields[%s]%s>>" % (b" ".join(self._fields), looks)
        self.written.finish(form if self._fields else b"")


def merge(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """What a box runs for the task "merge"."""
    sources = [Source(int(one["start"]), int(one["size"]), _tidy(one.get("title"))) for one in arguments["documents"]]
    with scratch_file() as target:
        with scratch_file() as raw:
            pages = _write_raw(file, raw, sources, arguments)
            with pikepdf.open(raw) as merged:
                _describe(merged, sources, _tidy(arguments.get("title")))
                _save(merged, target)
        reply.part({"name": NAME}, pieces_of(target))
    told = [{"first": one.first, "pages": one.pages, "reason": one.reason} for one in sources]
    return {"pages": pages, "documents": told}


def _write_raw(file: BinaryIO, raw: BinaryIO, sources: Sequence[Source], arguments: dict[str, Any]) -> int:
    growing = _Raw(file, raw)
    for source in sources:
        growing.add(source)
        refuse_pages(len(growing.written.kids), arguments)
    if not growing.written.kids:
        raise NothingInside("None of the documents can be taken into one PDF.")
    growing.finish()
    raw.flush()
    return len(growing.written.kids)


def _describe(merged: pikepdf.Pdf, sources: Sequence[Source], title: str) -> None:
    with merged.open_outline() as outline:
        for number, source in enumerate(sources, 1):
            if source.first is not None:
                outline.root.append(OutlineItem(source.title or f"Document {number}", source.first - 1))
    if title:
        merged.docinfo["/Title"] = title


def _save(document: pikepdf.Pdf, target: BinaryIO) -> None:
    """Contents go over as they are packed: nothing in them can unfold here."""
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
    text = " ".join(str(title or "").split())[:LONGEST_TITLE]
    return text.encode("utf-8", "replace").decode("utf-8")
