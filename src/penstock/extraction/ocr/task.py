"""The task "ocr": reads pages of a scan and returns their text in reading order.

A page that cannot be drawn or read becomes a gap. Tesseract reads first where it is installed (with tesserocr and its data):
it needs a third of RapidOCR's time on clean pages. RapidOCR reads what Tesseract was not sure of, with the models of its
wheel. Pages that lie on their side or upside down are turned.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.errors import Unreadable, Unsupported
from penstock.extraction.ocr.image import SMALLEST
from penstock.extraction.ocr.layout import TextBox, arrange, join
from penstock.extraction.pdf.draw import cut_strip, open_pages
from penstock.extraction.pdf.text import join_hyphenated_lines
from penstock.extraction.result import Gap, Page

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image


# -- RapidOCR -------------------------------------------------------------------------------------------------------------

LONGEST = 2000  # pixels: RapidOCR shrinks what is longer before it cuts the lines out
DETECTION = 960  # pixels of the longer side in which lines are detected
# The bundled model knows Chinese, Japanese and the languages that write with Latin letters.
LANGUAGES = frozenset(
    {"ch", "zh", "ja", "en", "la", "af", "az", "bs", "cs", "cy", "da", "de", "es", "et", "eu", "fi", "fr", "ga", "gl"}
    | {"hr", "hu", "id", "is", "it", "ku", "lt", "lv", "mi", "ms", "mt", "nl", "no", "oc", "pl", "pt", "ro", "sk", "sl"}
    | {"sq", "sv", "sw", "tl", "tr", "uz"}
)


def read_with_rapid(image: "Image.Image") -> list[TextBox]:
    """Lines with their place; y grows downwards, and the slope of the page is taken out."""
    import numpy as np

    found = _rapid_engine()(
        np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])
    )  # it takes BGR, as OpenCV does
    if found.boxes is None or not found.txts:
        return []
    return straighten(np.asarray(found.boxes, dtype=float), found.txts, found.scores)


def straighten(corners: "np.ndarray[Any, Any]", texts: "tuple[str, ...]", scores: "tuple[float, ...]") -> list[TextBox]:
    """Upright boxes out of tilted ones: the page is turned by the slope that most of its long lines have."""
    import numpy as np

    across = (corners[:, 1] - corners[:, 0] + corners[:, 2] - corners[:, 3]) / 2  # from left to right
    down = (corners[:, 3] - corners[:, 0] + corners[:, 2] - corners[:, 1]) / 2
    widths, heights = np.hypot(*across.T), np.hypot(*down.T)
    long = (widths > 3 * heights) & (np.abs(across[:, 1]) < np.abs(across[:, 0]))
    angle = float(np.median(np.arctan2(across[long, 1], across[long, 0]))) if long.any() else 0.0
    cosine, sine = np.cos(angle), np.sin(angle)
    centres = corners.mean(axis=1) @ np.array([[cosine, -sine], [sine, cosine]])
    return [
        TextBox(x - width / 2, y - height / 2, x + width / 2, y + height / 2, text, float(score))
        for (x, y), width, height, text, score in zip(
            centres.tolist(), widths.tolist(), heights.tolist(), texts, scores, strict=True
        )
    ]


@cache
def _rapid_engine() -> Any:
    package = find_spec("rapidocr")
    if package is None or package.origin is None:
        raise Unsupported("This document is a scan, and RapidOCR is not installed: install it to read scans.")
    models = Path(package.origin).parent / "models"
    paths = {
        "Det.model_path": next(models.glob("*_det_*.onnx"), None),
        "Rec.model_path": next(models.glob("*_rec_*.onnx"), None),
    }
    if None in paths.values():
        raise Unsupported("This document is a scan, and the installed RapidOCR has no models: install it again.")
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
    return RapidOCR(
        params={
            "Global.use_cls": False,
            "Global.log_level": "critical",
            "Global.max_side_len": LONGEST,
            "Det.limit_type": "max",
            "Det.limit_side_len": DETECTION,
            # One line at a time, padded to a short one only: a third less time and memory than batches of six, which are
            # as wide as their widest and never narrower than 320. No more errors.
            "Rec.rec_batch_num": 1,
            "Rec.rec_img_shape": [3, 48, 96],
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            **{key: str(path) for key, path in paths.items()},
        }
    )


# -- Tesseract ------------------------------------------------------------------------------------------------------------

SURE = 0.88  # below, RapidOCR reads the page as well; two clean pages had 0.94 and more, twelve receipts 0.86 and less
FOLDERS = (
    *("/usr/share/tesseract-ocr/5/tessdata", "/usr/share/tesseract-ocr/4.00/tessdata", "/usr/share/tessdata"),
    *("/usr/share/tesseract/tessdata", "/usr/local/share/tessdata", "/opt/homebrew/share/tessdata"),
)
CODES = {
    **{"en": "eng", "de": "deu", "fr": "fra", "es": "spa", "it": "ita", "pt": "por", "nl": "nld", "pl": "pol"},
    **{"cs": "ces", "sk": "slk", "sl": "slv", "hr": "hrv", "hu": "hun", "ro": "ron", "bg": "bul", "el": "ell"},
    **{"da": "dan", "sv": "swe", "no": "nor", "fi": "fin", "et": "est", "lv": "lav", "lt": "lit", "tr": "tur"},
    **{"ru": "rus", "uk": "ukr", "ar": "ara", "he": "heb", "hi": "hin", "th": "tha", "vi": "vie", "id": "ind"},
    **{"ja": "jpn", "ko": "kor", "zh": "chi_sim", "ch": "chi_sim", "la": "lat", "ca": "cat", "is": "isl"},
}


def data_folder(language: str) -> Path | None:
    """The folder with the data of a language; None when it, or the package, is not installed."""
    if find_spec("tesserocr") is None:
        return None
    name = f"{CODES.get(language, language)}.traineddata"
    return next((folder for folder in map(Path, FOLDERS) if (folder / name).is_file()), None)


def read_with_tesseract(image: "Image.Image", folder: Path, language: str) -> list[TextBox]:
    """Lines with their place, in no order."""
    engine = _tesseract_engine(str(folder), CODES.get(language, language))
    engine.SetImage(image)
    try:
        engine.Recognize()
        return list(_lines(engine.GetIterator()))
    finally:
        engine.Clear()


def _lines(iterator: Any) -> Iterator[TextBox]:
    from tesserocr import RIL, iterate_level  # type: ignore[import-untyped]

    if iterator is None:
        return
    for line in iterate_level(iterator, RIL.TEXTLINE):
        place = line.BoundingBox(RIL.TEXTLINE)
        text = " ".join((line.GetUTF8Text(RIL.TEXTLINE) or "").split()) if place else ""
        if text:
            left, top, right, bottom = place
            yield TextBox(left, top, right, bottom, text, min(max(line.Confidence(RIL.TEXTLINE) / 100, 0.0), 1.0))


@cache
def _tesseract_engine(folder: str, language: str) -> Any:
    os.environ["OMP_THREAD_LIMIT"] = "1"  # before it loads: several children run at once
    from tesserocr import OEM, PSM, PyTessBaseAPI

    # AUTO keeps columns apart; one block (6) mixes them, and reads receipts no better (both err by 0.15).
    return PyTessBaseAPI(path=folder, lang=language, psm=PSM.AUTO, oem=OEM.LSTM_ONLY)


# -- the task -------------------------------------------------------------------------------------------------------------

DOUBTFUL = 0.75  # a page read with less confidence may be upside down
Read = Callable[["Image.Image"], list[TextBox]]


@dataclass(frozen=True, slots=True)
class OcrText:
    """The text of a page, and the confidence of the OCR (0 to 1)."""

    text: str
    confidence: float


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
                pages.append(Page(number, found.text, ocr=round(found.confidence, 4) if found.text else None))
                gaps += [] if found.text else [Gap(number, "the OCR has found no text on this page")]
            if progress is not None:
                progress(done, len(numbers))
    return {"pages": [asdict(page) for page in pages], "gaps": [asdict(gap) for gap in gaps]}


def choose(engine: str, language: str) -> tuple[Callable[["Image.Image"], OcrText], list[Gap]]:
    """The function that reads a page, and gaps when it is not the engine or language that was asked for."""
    folder = data_folder(language) if engine in {"auto", "tesseract"} else None
    if folder is not None:
        by_tesseract = partial(read_with_tesseract, folder=folder, language=language)
        return (partial(read_upright, by_tesseract) if engine == "tesseract" else partial(read_both, by_tesseract)), []
    gaps = []
    if engine == "tesseract":
        gaps.append(
            Gap(None, f"Tesseract or its data for {language} is not installed: the scans were read by RapidOCR")
        )
    if language not in LANGUAGES:
        reason = f"no OCR for the language {language} is installed: the scans were read as Latin and Chinese letters"
        gaps.append(Gap(None, reason))
    return partial(read_upright, read_with_rapid), gaps


def read_both(by_tesseract: Read, image: "Image.Image") -> OcrText:
    """Read with Tesseract; when its confidence is low, also with RapidOCR, and take the better one."""
    first = compose(read_pieces(by_tesseract, image))
    if first.confidence >= SURE:
        return first
    second = read_upright(read_with_rapid, image)
    return second if second.confidence >= first.confidence else first


def read_upright(read: Read, image: "Image.Image") -> OcrText:
    """Read it as it is, and turned when most lines run upwards or the confidence is low."""
    if min(image.size) < SMALLEST:
        return OcrText("", 0.0)
    boxes = read_pieces(read, image)
    best = compose(boxes)
    if len(boxes) < 3:
        return best
    if sum(box.height > 1.5 * box.width for box in boxes) > 0.6 * len(boxes):
        angles: tuple[int, ...] = (90, 270)
    else:
        angles = (180,) if best.confidence < DOUBTFUL else ()
    for angle in angles:
        turned = compose(read_pieces(read, image.rotate(angle, expand=True)))
        best = max(best, turned, key=lambda found: found.confidence * len(found.text))
    return best


def read_pieces(read: Read, image: "Image.Image") -> list[TextBox]:
    return [
        TextBox(box.left, box.top + top, box.right, box.bottom + top, box.text, box.score)
        for top, piece in cut_strip(image)
        for box in read(piece)
    ]


def compose(boxes: list[TextBox]) -> OcrText:
    """The text in reading order; its confidence weighs a line by its length."""
    letters = sum(len(box.text) for box in boxes)
    if not letters:
        return OcrText("", 0.0)
    return OcrText(
        join_hyphenated_lines(join(arrange(boxes))), min(1.0, sum(len(box.text) * box.score for box in boxes) / letters)
    )
