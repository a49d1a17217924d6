"""What a PDF could do by itself is taken out of its pages before they go into another: scripts, programs, files, media.

Links inside of the document and to the web stay; so do notes, marks and the values of form fields. A signature's field stays
as it looks; what it signed is no longer there, so its proof goes.
"""

from collections.abc import Iterator
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream

_SAFE_ACTIONS = {"/GoTo", "/URI", "/Named"}
_ACTIVE_NOTES = {"/FileAttachment", "/RichMedia", "/Screen", "/Movie", "/Sound", "/3D"}
_ACTIVE_ACTIONS = {
    *("/JavaScript", "/Launch", "/SubmitForm", "/ImportData", "/GoToR", "/GoToE", "/Rendition", "/Movie", "/Sound"),
    *("/RichMediaExecute", "/GoTo3DView"),
}
_WEB = ("http:", "https:", "mailto:")
# Beside what acts: parts of trees that are not taken over, and files that belong to a page.
_PAGE_KEYS = ("/AA", "/AF", "/B", "/PieceInfo", "/StructParents")
_NOTE_KEYS = ("/AA", "/AF", "/FS", "/StructParent")
_DEEPEST = 100


def disarm(document: pikepdf.Pdf) -> None:
    """In memory; the file itself stays as it is."""
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
    """A note, and the field that it shows, and the fields above that."""
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
