"""The OCR task of a box: pages of a scan in, their text in reading order out.

A page that cannot be drawn or read becomes a gap; the rest goes on. Tesseract comes first where it is installed, and
RapidOCR reads what it was not sure of. Pages that lie on their side or upside down are turned.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.errors import Unreadable
from penstock.extraction.ocr import rapid, tesseract
from penstock.extraction.ocr.image import SMALLEST
from penstock.extraction.ocr.layout import Box, arrange, join
from penstock.extraction.pdf.draw import cut_strip, open_pages
from penstock.extraction.pdf.hyphens import mend_lines
from penstock.extraction.reading import Gap, Page

if TYPE_CHECKING:
    from PIL import Image

DOUBTFUL = 0.75  # a page read with less confidence may be upside down
Read = Callable[["Image.Image"], list[Box]]


@dataclass(frozen=True, slots=True)
class Found:
    """What was read on a page, and how sure it is."""

    text: str
    sure: float


def ocr(file: BinaryIO, arguments: Mapping[str, Any], reply: object) -> dict[str, Any]:
    numbers, language = list(arguments["pages"]), arguments.get("language", "en")
    read, gaps = choose(arguments.get("engine", "auto"), language)
    progress = getattr(reply, "progress", None)
    pages: list[Page] = []
    with open_pages(file, arguments["media_type"], arguments["limits"]["pixels"]) as draw:
        for done, number in enumerate(numbers, 1):
            try:
                found = read(draw(number))
            except Unreadable as error:
                gaps.append(Gap(number, str(error)))
            else:
                pages.append(Page(number, found.text, ocr=round(found.sure, 4) if found.text else None))
                gaps += [] if found.text else [Gap(number, "the OCR has found no text on this page")]
            if progress is not None:
                progress(done, len(numbers))
    return _answer(pages, gaps)


def _answer(pages: list[Page], gaps: list[Gap]) -> dict[str, Any]:
    return {"pages": [asdict(page) for page in pages], "gaps": [asdict(gap) for gap in gaps]}


def choose(engine: str, language: str) -> tuple[Callable[["Image.Image"], Found], list[Gap]]:
    """What reads the pages; and a gap when it is not what was asked for."""
    folder = tesseract.data_folder(language) if engine in {"auto", "tesseract"} else None
    if folder is not None:
        by_tesseract = partial(tesseract.read_lines, folder=folder, language=language)
        return (partial(read_upright, by_tesseract) if engine == "tesseract" else partial(read_both, by_tesseract)), []
    gaps = []
    if engine == "tesseract":
        gaps.append(Gap(None, f"Tesseract or its data for {language} is not installed; RapidOCR has read the scans"))
    if language not in rapid.LANGUAGES:
        reason = f"no OCR for the language {language} is installed; the scans were read as Latin and Chinese letters"
        gaps.append(Gap(None, reason))
    return partial(read_upright, rapid.read_lines), gaps


def read_both(by_tesseract: Read, image: "Image.Image") -> Found:
    """Tesseract; RapidOCR too when that is not sure, and then whichever is surer."""
    first = compose(read_pieces(by_tesseract, image))
    if first.sure >= tesseract.SURE:
        return first
    second = read_upright(rapid.read_lines, image)
    return second if second.sure >= first.sure else first


def read_upright(read: Read, image: "Image.Image") -> Found:
    """As it is; turned when most lines run upwards, or when the letters make little sense."""
    if min(image.size) < SMALLEST:
        return Found("", 0.0)
    boxes = read_pieces(read, image)
    best = compose(boxes)
    if len(boxes) < 3:
        return best
    if sum(box.height > 1.5 * box.width for box in boxes) > 0.6 * len(boxes):
        angles: tuple[int, ...] = (90, 270)
    else:
        angles = (180,) if best.sure < DOUBTFUL else ()
    for angle in angles:
        turned = compose(read_pieces(read, image.rotate(angle, expand=True)))
        best = max(best, turned, key=lambda found: found.sure * len(found.text))
    return best


def read_pieces(read: Read, image: "Image.Image") -> list[Box]:
    return [
        Box(box.left, box.top + top, box.right, box.bottom + top, box.text, box.score)
        for top, piece in cut_strip(image)
        for box in read(piece)
    ]


def compose(boxes: list[Box]) -> Found:
    """The text in reading order; its confidence weighs a line by its length."""
    letters = sum(len(box.text) for box in boxes)
    if not letters:
        return Found("", 0.0)
    return Found(mend_lines(join(arrange(boxes))), min(1.0, sum(len(box.text) * box.score for box in boxes) / letters))
