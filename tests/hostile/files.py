"""All hostile files: `hostile_files()` lists them, `write_files(folder)` makes them."""

from functools import cache
from pathlib import Path

from tests.hostile import archives, compounds, damaged, disguises, images, mails, markup, office, pdfs, texts
from tests.hostile.file import File

FAMILIES = (pdfs, archives, office, compounds, images, markup, texts, mails, disguises, damaged)


@cache
def hostile_files() -> tuple[File, ...]:
    return tuple(file for family in FAMILIES for file in family.files())


def write_files(folder: Path) -> dict[File, Path]:
    """Each into the folder; always the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {file: folder / file.name for file in hostile_files()}
    for file, path in written.items():
        path.write_bytes(file.content())
    return written
