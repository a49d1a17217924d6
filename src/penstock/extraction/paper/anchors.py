"""Names that are known in the whole of a PDF, made fit for another: links point at places, fields get names of their own."""

from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, NameTree, String


def place_links(document: pikepdf.Pdf) -> None:
    """Links that name their destination point at it instead; one that leads nowhere keeps its name, and does nothing."""
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
    said = owner.get(key)
    found = None
    if isinstance(said, String):
        found = by_string.get(str(said))
    elif isinstance(said, Name):
        found = by_name.get(str(said))
    if isinstance(found, Dictionary):
        found = found.get("/D")
    if isinstance(found, Array):
        owner[key] = found


def name_fields(document: pikepdf.Pdf, taken: set[str]) -> list[Dictionary]:
    """The fields of its form, under names that no other document has."""
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
