"""Readers that are programs of the system: LibreOffice and Tesseract, inside the walls of a real sandbox."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Corrupt
from penstock.extraction import SandboxPool
from penstock.extraction.ocr import task as ocr_task
from penstock.extraction.office import libreoffice
from penstock.settings import Settings
from tests.extraction import sample_files
from tests.extraction.letter import SAID, errors, letter
from tests.extraction.sample_pdfs import encode
from tests.real.conftest import missing

NAMES = "http://openoffice.org/2000"
CONTENT = f'<office:document-content xmlns:office="{NAMES}/office" xmlns:text="{NAMES}/text" office:class="text">'
MANIFEST = (
    '<manifest:manifest xmlns:manifest="http://openoffice.org/2001/manifest">'
    '<manifest:file-entry manifest:media-type="application/vnd.sun.xml.writer" manifest:full-path="/"/>'
    '<manifest:file-entry manifest:media-type="text/xml" manifest:full-path="content.xml"/></manifest:manifest>'
)


def staroffice(body: str) -> bytes:
    """A text document as StarOffice wrote it, which none of our own readers knows."""
    parts = {
        "mimetype": "application/vnd.sun.xml.writer",
        "content.xml": f"{CONTENT}<office:body>{body}</office:body></office:document-content>",
        "META-INF/manifest.xml": MANIFEST,
    }
    return sample_files.zipped(parts, stored=["mimetype"])


class Sandbox:
    """One process, so that what one document leaves behind would meet the next."""

    def __init__(self, sandboxes: SandboxPool, settings: Settings, folder: Path) -> None:
        self._sandboxes = sandboxes
        self._limits = settings.limits.model_dump()
        self._folder = folder

    async def call(self, task: str, content: bytes, **arguments: Any) -> Any:
        path = self._folder / "document"
        path.write_bytes(content)
        with path.open("rb") as file:
            return await self._sandboxes.call(task, file, {"limits": self._limits, **arguments})


@pytest.fixture
async def sandbox(settings: Settings, tmp_path: Path) -> AsyncIterator[Sandbox]:
    one = settings.extraction.model_copy(update={"children": 1})
    async with SandboxPool(settings.model_copy(update={"extraction": one})) as sandboxes:
        yield Sandbox(sandboxes, settings, tmp_path)


async def test_libreoffice_converts_one_after_the_other(sandbox: Sandbox) -> None:
    """In the same process, with a broken one between two good ones."""
    if libreoffice.find_library() is None:
        missing("LibreOffice", "apt-get install libreoffice-writer-nogui")
    found = []
    for body in ("<text:p>Forty sacks of rye.</text:p>", "<text:p>broken", "<text:p>Two sacks of oats.</text:p>"):
        try:
            reading = await sandbox.call("read", staroffice(body), name="ledger.sxw")
            found += [page["text"].strip() for page in reading["pages"]]
        except Corrupt as error:
            found.append(str(error))
    assert found == ["Forty sacks of rye.", "damaged: LibreOffice cannot open it", "Two sacks of oats."]


async def test_tesseract_reads_a_letter(sandbox: Sandbox) -> None:
    if ocr_task.data_folder("en") is None:
        missing("Tesseract, its data or tesserocr", "apt-get install tesseract-ocr; pip install tesserocr")
    image = encode(letter(), "PNG")
    read = await sandbox.call("ocr", image, media_type="image/png", pages=[1], language="en", engine="tesseract")
    assert errors(read["pages"][0]["text"], SAID) < 0.1
