"""Office files as PDFs by LibreOffice, inside the walls of a real box."""

from collections.abc import AsyncIterator

import pytest

from penstock.errors import Corrupt
from penstock.extraction import Boxes
from penstock.extraction.office import libreoffice
from penstock.settings import Settings
from tests.extraction import made
from tests.extraction.test_paper_convert import Converted, call
from tests.real.conftest import missing


@pytest.fixture
async def boxes(settings: Settings) -> AsyncIterator[Boxes]:
    if libreoffice.find_library() is None:
        missing("LibreOffice", "apt-get install libreoffice-writer-nogui")
    async with Boxes(settings) as boxes:
        yield boxes


async def test_libreoffice_draws_a_document(boxes: Boxes) -> None:
    raw = made.docx(made.paragraph("Forty sacks of rye.") + made.paragraph("Zwölf Säcke Hafer."))
    told, _, pdf = await call(boxes, "convert", raw, name="ledger.docx")
    assert told["how"] == "office" and told["pages"] == 1 and not told["gaps"]
    assert Converted(told, pdf).texts == ["Forty sacks of rye.\nZwölf Säcke Hafer."]


async def test_what_it_cannot_draw_is_set_as_text(boxes: Boxes) -> None:
    """A table needs more of LibreOffice than its Writer. A broken file does not keep the next one from being drawn."""
    sheet = made.xlsx(("one", [["oats", "rye"], ["2", "40"]]))
    told, _, pdf = await call(boxes, "convert", sheet, name="a.xlsx")
    assert told["how"] in {"office", "text"} and "40" in Converted(told, pdf).texts[0]
    assert told["how"] == "office" or "LibreOffice cannot convert it" in told["gaps"][0]["reason"]
    with pytest.raises(Corrupt):
        await call(boxes, "convert", made.docx(made.paragraph("Oats."))[:-60], name="b.docx")
    told, _, pdf = await call(boxes, "convert", made.docx(made.paragraph("Barley.")), name="c.docx")
    assert told["how"] == "office" and Converted(told, pdf).texts == ["Barley."]
