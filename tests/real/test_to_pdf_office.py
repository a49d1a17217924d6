"""Office files as PDFs by LibreOffice, inside the walls of a real sandbox."""

from collections.abc import AsyncIterator

import pytest

from penstock.errors import Corrupt
from penstock.extraction import SandboxPool
from penstock.extraction.office import libreoffice
from penstock.settings import Settings
from tests.extraction import sample_files
from tests.extraction.pdf_results import Converted, call
from tests.real.conftest import missing


@pytest.fixture
async def sandboxes(settings: Settings) -> AsyncIterator[SandboxPool]:
    if libreoffice.find_library() is None:
        missing("LibreOffice", "apt-get install libreoffice-writer-nogui")
    async with SandboxPool(settings) as sandboxes:
        yield sandboxes


async def test_libreoffice_draws_a_document(sandboxes: SandboxPool) -> None:
    raw = sample_files.docx(
        sample_files.paragraph("Forty sacks of rye.") + sample_files.paragraph("Zwölf Säcke Hafer.")
    )
    told, _, pdf = await call(sandboxes, "convert", raw, name="ledger.docx")
    assert told["how"] == "office" and told["pages"] == 1 and not told["gaps"]
    assert Converted(told, pdf).texts == ["Forty sacks of rye.\nZwölf Säcke Hafer."]


async def test_what_it_cannot_draw_is_set_as_text(sandboxes: SandboxPool) -> None:
    """A table needs more of LibreOffice than its Writer. A broken file does not keep the next one from being drawn."""
    sheet = sample_files.xlsx(("one", [["oats", "rye"], ["2", "40"]]))
    told, _, pdf = await call(sandboxes, "convert", sheet, name="a.xlsx")
    assert told["how"] in {"office", "text"} and "40" in Converted(told, pdf).texts[0]
    assert told["how"] == "office" or "LibreOffice cannot convert it" in told["gaps"][0]["reason"]
    with pytest.raises(Corrupt):
        await call(sandboxes, "convert", sample_files.docx(sample_files.paragraph("Oats."))[:-60], name="b.docx")
    told, _, pdf = await call(sandboxes, "convert", sample_files.docx(sample_files.paragraph("Barley.")), name="c.docx")
    assert told["how"] == "office" and Converted(told, pdf).texts == ["Barley."]
