"""Small PDFs that become huge: forms that draw themselves, forms of forms of forms, pages that unpack to gigabytes.

pdfium follows a form that draws itself to its own depth limit, which took 3 GB of memory for a file of one kilobyte. A
look with pikepdf costs about a millisecond, and is taken only at files that can hold such a thing. What counts is what a
form's content draws, not what its resources list: many producers list everything everywhere.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO

import pikepdf

from penstock.errors import Suspicious

MOST_DRAWN = 100_000  # forms that one page may draw
DEEPEST = 30  # forms in forms
MOST_UNPACKED = 64 * 2**20  # bytes of one content stream
MOST_REPEATED = 2**21  # bytes of one that repeats itself: pdfium keeps half a kilobyte for each `(a) Tj`
REPEATING = 150  # times smaller when packed; a page of drawings becomes ten times smaller
SMALL = MOST_REPEATED // 1032  # what is not larger cannot unpack to more: the most that deflate can do
_CALLS = re.compile(rb"(/[^\s/<>()\[\]{}%]+)\s+Do\b")
# `#` can hide any letter of a name. Dictionaries of streams, forms among them, are never compressed themselves.
_SIGNS = rb"/(?:Form|[Form]*#)|/(?:FlateDecode|Fl)\s*/(?:FlateDecode|Fl)\b"

_DAMAGED = (
    pikepdf.PdfError,
    pikepdf.PasswordError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    zlib.error,
)

Key = tuple[int, int]


def refuse_bombs(file: BinaryIO, pages: int) -> None:
    size = file.seek(0, 2)
    if size <= SMALL and not mentions(file, _SIGNS):
        return
    file.seek(0)
    try:
        with pikepdf.open(file) as document:
            look = _Look()
            for page in islice(document.pages, pages):
                with suppress(*_DAMAGED):  # a broken page must not hide the others
                    look.at_page(page)
    except _DAMAGED:
        return  # damaged or encrypted: pdfium has its own opinion, and the box its limits


def mentions(file: BinaryIO, sign: bytes) -> bool:
    """Whether something is in the file in plain sight."""
    file.seek(0)
    ending = b""
    while piece := file.read(2**20):
        if re.search(sign, ending + piece):
            return True
        ending = piece[-32:]
    return False


class _Look:
    """Counts what pages and forms draw: each form once for each owner of the resources that it uses."""

    def __init__(self) -> None:
        self.drawn: dict[tuple[Key, Key], int] = {}
        self.forms: dict[Key, dict[str, Any]] = {}

    def at_page(self, page: pikepdf.Page) -> None:
        contents = list(_contents(page.obj))
        for content in contents:
            _check_size(content)
        forms = self._forms_of(page.obj.objgen, page.resources)
        weights = {name: self._weigh(form, page.obj.objgen, ()) for name, form in forms.items()}
        if any(weight > 1 for weight in weights.values()):
            calls = [_called(content) for content in contents]
            _check_drawn(sum(times * weights.get(name, 0) for each in calls for name, times in each.items()))

    def _weigh(self, form: Any, owner: Key, path: tuple[Key, ...]) -> int:
        """How many forms it draws, itself included."""
        if form.objgen in path:
            raise Suspicious("A form of this PDF draws itself, without end.")
        if len(path) >= DEEPEST:
            raise Suspicious(f"This PDF has forms inside of forms, more than {DEEPEST} deep.")
        if "/Resources" in form:  # without its own, it uses those of whoever draws it
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

    def _forms_of(self, owner: Key, resources: Any) -> dict[str, Any]:
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
    """Unpack at most as much as may be; other filters than deflate hardly make anything larger."""
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
            raise Suspicious(f"A page of this PDF says the same over and over: {size:,} bytes become {len(packed):,}.")
