import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rapidocr.utils.download_file import DownloadFile

from penstock.extraction.ocr import task as ocr_tesseract
from penstock.extraction.ocr.layout import TextBox
from penstock.extraction.ocr.task import (
    OcrText,
    _rapid_engine,
    choose,
    compose,
    ocr,
    read_both,
    read_upright,
    read_with_rapid,
)
from penstock.extraction.result import decode_gap, decode_page
from tests.extraction.letter import SAID, errors, letter
from tests.extraction.sample_pdfs import LIMITS, Placed, encode, one_page, picture, scan_pdf
from tests.slow import slow_but_first

RECEIPTS = Path(__file__).parents[2].parent / "shared" / "corpus" / "ocr"


class Listener:
    """Hears the progress."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int]] = []

    def progress(self, done: int, total: int) -> None:
        self.heard.append((done, total))


def run(raw: bytes, media_type: str, pages: Sequence[int] = (1,), reply: object = None, **more: Any) -> dict[str, Any]:
    asked = {"media_type": media_type, "pages": list(pages), "language": "en", "engine": "rapidocr", "limits": LIMITS}
    return ocr(io.BytesIO(raw), asked | more, reply)


def test_an_image_is_read_with_the_models_of_the_wheel_and_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DownloadFile, "run", lambda *_: pytest.fail("it looks for a download"))
    _rapid_engine.cache_clear()
    answer = run(encode(letter(), "PNG"), "image/png")
    page = decode_page(answer["pages"][0] | {"headings": [], "tables": []})

    assert page.text == SAID
    assert page.ocr is not None
    assert page.ocr > 0.9
    assert answer["gaps"] == []


def test_pages_of_a_scan_are_read_by_number_with_progress() -> None:
    raw = scan_pdf(
        picture([(30, 30, 40, "Page one")], (300, 120)), letter(), picture([(30, 30, 40, "Page three")], (300, 120))
    )
    listener = Listener()
    answer = run(raw, "application/pdf", [3, 1], listener)

    assert [(page["number"], page["text"]) for page in answer["pages"]] == [(3, "Page three"), (1, "Page one")]
    assert listener.heard == [(1, 2), (2, 2)]


def test_columns_of_a_picture_are_read_one_after_the_other() -> None:
    columns = [[f"{name} side line {row} has words" for row in "abcdef"] for name in ("Left", "Right")]
    lines: list[Placed] = [
        (40 + 480 * x, 100 + 50 * y, 26, text) for x, column in enumerate(columns) for y, text in enumerate(column)
    ]
    answer = run(
        encode(picture([(250, 20, 40, "A heading over both columns"), *lines], (960, 420)), "PNG"), "image/png"
    )

    wanted = ["A heading over both columns", *columns[0], *columns[1]]
    assert answer["pages"][0]["text"].split() == " ".join(wanted).split()


def test_frames_of_a_tiff_and_a_damaged_one_is_a_gap() -> None:
    frames = [picture([(30, 30, 40, f"Frame {name}")], (300, 120)) for name in ("one", "two")]
    raw = encode(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    answer = run(raw, "image/tiff", [1, 7, 2])

    assert [(page["number"], page["text"]) for page in answer["pages"]] == [(1, "Frame one"), (2, "Frame two")]
    assert [decode_gap(gap).page for gap in answer["gaps"]] == [7]


def test_a_page_that_cannot_be_drawn_is_a_gap_and_the_rest_goes_on() -> None:
    raw = scan_pdf(picture([(30, 30, 40, "Page one")], (300, 120)))
    listener = Listener()
    answer = run(raw, "application/pdf", [2, 1], listener)

    assert [page["number"] for page in answer["pages"]] == [1]
    [gap] = answer["gaps"]
    assert gap["page"] == 2
    assert "cannot be drawn" in gap["reason"]
    assert listener.heard[-1] == (2, 2)


@pytest.mark.slow
def test_a_page_of_a_thousand_kilometres_is_drawn_small() -> None:
    answer = run(one_page(b"", b"0 0 m 9 9 l S", box=b"0 0 9999999 9999999"), "application/pdf")

    assert answer["pages"][0]["text"] == ""
    assert [gap["reason"] for gap in answer["gaps"]] == ["the OCR has found no text on this page"]


@pytest.mark.parametrize("angle", slow_but_first([90, 180, 270]))
def test_a_turned_page_is_turned_back(angle: int) -> None:
    found = read_upright(read_with_rapid, letter().rotate(angle, expand=True))

    assert errors(found.text, SAID) < 0.05


def test_a_language_that_cannot_be_read_is_told() -> None:
    assert choose("rapidocr", "de")[1] == []
    [gap] = choose("rapidocr", "ru")[1]
    assert gap.page is None
    assert "language ru" in gap.reason


def test_tesseract_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr_tesseract, "FOLDERS", ())
    [gap] = choose("tesseract", "en")[1]
    assert "Tesseract or its data for en is not installed" in gap.reason
    assert choose("auto", "en")[1] == []


def test_what_tesseract_is_not_sure_of_is_read_again() -> None:
    def unsure(_: Image.Image) -> list[TextBox]:
        return [TextBox(0, 0, 90, 20, "Dear render", 0.4)]

    def sure(_: Image.Image) -> list[TextBox]:
        return [TextBox(0, 0, 90, 20, "read by Tesseract", 0.95)]

    assert read_both(unsure, letter()).text == SAID
    assert read_both(sure, letter()).text == "read by Tesseract"


def test_confidence_weighs_lines_by_their_length() -> None:
    assert compose([TextBox(0, 0, 9, 9, "aaa", 1.0), TextBox(0, 20, 9, 29, "b", 0.2)]) == OcrText("aaa\n\nb", 0.8)
    assert compose([]) == OcrText("", 0.0)


@pytest.mark.slow
@pytest.mark.skipif(not RECEIPTS.is_dir(), reason="the shared corpus is not beside the project")
def test_receipts_are_read_with_few_errors() -> None:
    rates = []
    for path in sorted(RECEIPTS.glob("*.jpg"))[:3]:
        text = run(path.read_bytes(), "image/jpeg")["pages"][0]["text"]
        rates.append(errors(text, path.with_suffix(".txt").read_text()))

    assert len(rates) == 3
    assert sum(rates) / 3 <= 0.08, rates
