"""The task "merge": several PDFs, one behind the other in one file, become one PDF with an outline of them.

Pages are appended, their images and contents are not read until the result is written, one at a time; so memory does not
grow with them. A document that cannot be taken is left out with its reason, and the others go on. The result depends on the
documents and their titles only: no dates, no chance.
"""

import io
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

import pikepdf
from pikepdf import ObjectStreamMode, OutlineItem, PageCopyWarning, StreamDecodeLevel
from typing_extensions import override

from penstock.errors import Corrupt, NothingInside, Unreadable
from penstock.extraction.draft import refuse_pages
from penstock.extraction.paper.bundle import Slice
from penstock.extraction.paper.checked import DAMAGED, ENCRYPTED, reason
from penstock.extraction.paper.harm import disarm
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

    def miss(self, why: str) -> None:
        self.first, self.pages, self.reason = None, 0, why


def merge(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """What a box runs for the task "merge"."""
    sources = [Source(int(one["start"]), int(one["size"]), _tidy(one.get("title"))) for one in arguments["documents"]]
    with scratch_file() as target:
        pages = _merge_or_find_fault(file, sources, arguments, target)
        target.flush()
        reply.part({"name": NAME}, pieces_of(target))
    told = [{"first": one.first, "pages": one.pages, "reason": one.reason} for one in sources]
    return {"pages": pages, "documents": told}


def _merge_or_find_fault(file: BinaryIO, sources: Sequence[Source], arguments: dict[str, Any], target: BinaryIO) -> int:
    """Some damage shows only when contents are read: then each is written by itself, to learn whose it is."""
    try:
        return _merge(file, sources, arguments, target)
    except DAMAGED as error:
        fault = error
    for source in sources:
        if not source.reason:
            _try_alone(file, source)
    if not any(source.reason for source in sources):
        raise Corrupt(f"The documents cannot be made into one: {reason(fault)}.") from fault
    target.seek(0)
    target.truncate()
    try:
        return _merge(file, sources, arguments, target)
    except DAMAGED as error:
        raise Corrupt(f"The documents cannot be made into one: {reason(error)}.") from error


def _merge(file: BinaryIO, sources: Sequence[Source], arguments: dict[str, Any], target: BinaryIO) -> int:
    with ExitStack() as opened, pikepdf.new() as merged:
        for source in sources:
            if not source.reason:
                _append(file, source, merged, opened)
                refuse_pages(len(merged.pages), arguments)
        if not len(merged.pages):
            raise NothingInside("None of the documents can be taken into one PDF.")
        _describe(merged, sources, _tidy(arguments.get("title")))
        _save(merged, target)
        return len(merged.pages)


def _append(file: BinaryIO, source: Source, merged: pikepdf.Pdf, opened: ExitStack) -> None:
    """Sources stay open until the result is written: their contents are read only then."""
    before = len(merged.pages)
    try:
        document = opened.enter_context(_open(file, source))
        if not len(document.pages):
            raise Corrupt("This PDF has no pages.")
        disarm(document)
        _copy_pages(document, merged)
        source.first, source.pages = before + 1, len(merged.pages) - before
    except pikepdf.PasswordError:
        source.miss(ENCRYPTED)
    except Unreadable as error:
        source.miss(str(error))
    except DAMAGED as error:
        source.miss(f"This PDF is damaged: {reason(error)}.")
    if source.reason:
        del merged.pages[before:]


def _open(file: BinaryIO, source: Source) -> pikepdf.Pdf:
    if source.start < 0 or source.size <= 0 or source.start + source.size > file.seek(0, io.SEEK_END):
        raise Corrupt(_NO_PLACE)
    return pikepdf.open(Slice(file, source.start, source.size))  # type: ignore[arg-type]


def _copy_pages(document: pikepdf.Pdf, merged: pikepdf.Pdf) -> None:
    before = len(merged.pages)
    try:
        merged.add_pages_from(document)
    except DAMAGED:  # a form that makes no sense: its pages do without it
        del merged.pages[before:]
        merged.add_pages_from(document, forms="strip")


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
        warnings.simplefilter("ignore", PageCopyWarning)
        document.save(
            target,
            object_stream_mode=ObjectStreamMode.generate,
            stream_decode_level=StreamDecodeLevel.none,
            deterministic_id=True,
            encryption=False,
        )


class _Nowhere(io.RawIOBase):
    """Takes everything, keeps nothing."""

    @override
    def writable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def write(self, content: Any, /) -> int:
        return len(content)

    @override
    def seek(self, offset: int, whence: int = 0, /) -> int:
        return 0


def _try_alone(file: BinaryIO, source: Source) -> None:
    try:
        with ExitStack() as opened, pikepdf.new() as alone:
            _append(file, source, alone, opened)
            _save(alone, _Nowhere())  # type: ignore[arg-type]
    except DAMAGED as error:
        source.miss(f"This PDF is damaged: {reason(error)}.")


def _tidy(title: object) -> str:
    text = " ".join(str(title or "").split())[:LONGEST_TITLE]
    return text.encode("utf-8", "replace").decode("utf-8")
