"""Pages of one PDF, with all that they refer to, written into another, one object at a time.

pikepdf's own way to append pages reads all of their images into memory at once. Here an object is read, its references are
renumbered, and it is written, before the next one is read; what remains in memory are numbers.
"""

import re
from collections import deque
from decimal import Decimal

import pikepdf
from pikepdf import Dictionary, Name, Object, Stream

from penstock.extraction.paper.harm import is_active
from penstock.extraction.paper.pdffile import PAGES, PdfFile

# Strings and names first, so that nothing inside of them is taken for a reference.
_TOKEN = re.compile(rb"\((?:[^\\()]|\\.)*\)|<[0-9a-fA-F]*>|/[^\s/<>()\[\]]*|\b(\d+) (\d+) R\b", re.DOTALL)
# A stream's length is written anew; that its content is in another file is not believed.
_OF_FILES = {"/Length", "/F", "/FFilter", "/FDecodeParms"}

Key = tuple[int, int]


class Copier:
    """Copies from one document."""

    def __init__(self, document: pikepdf.Pdf, written: PdfFile) -> None:
        self._document = document
        self._written = written
        self._numbers: dict[Key, int] = {}
        self._waiting: deque[Key] = deque()

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
        """Something beside the pages, as it is to be written."""
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
    """Numbers and the like come as Python's own."""
    if isinstance(held, Object):
        return held.unparse(resolved=True)
    if isinstance(held, bool):
        return b"true" if held else b"false"
    return b"%d" % held if isinstance(held, int) else f"{held:f}".encode() if isinstance(held, Decimal) else b"null"


def _without(held: Object, left_out: set[str]) -> Dictionary:
    """A shallow copy: what it refers to stays a reference."""
    return Dictionary({key: value for key, value in held.items() if key not in left_out})
