"""Tesseract, where it is installed with its data and the package tesserocr: a third of RapidOCR's time on clean pages.

It is optional, and imported only when it is used. The data is looked for in the folders of the usual packages, because a
box has no environment that could name one.
"""

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.extraction.ocr.layout import Box

if TYPE_CHECKING:
    from PIL import Image

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
    """Where the data of a language is; None when it, or the package, is not installed."""
    if find_spec("tesserocr") is None:
        return None
    name = f"{CODES.get(language, language)}.traineddata"
    return next((folder for folder in map(Path, FOLDERS) if (folder / name).is_file()), None)


def read_lines(image: "Image.Image", folder: Path, language: str) -> list[Box]:
    """Lines with their place, in no order."""
    engine = _engine(str(folder), CODES.get(language, language))
    engine.SetImage(image)
    try:
        engine.Recognize()
        return list(_lines(engine.GetIterator()))
    finally:
        engine.Clear()


def _lines(iterator: Any) -> Iterator[Box]:
    from tesserocr import RIL, iterate_level  # type: ignore[import-untyped]

    if iterator is None:
        return
    for line in iterate_level(iterator, RIL.TEXTLINE):
        place = line.BoundingBox(RIL.TEXTLINE)
        text = " ".join((line.GetUTF8Text(RIL.TEXTLINE) or "").split()) if place else ""
        if text:
            left, top, right, bottom = place
            yield Box(left, top, right, bottom, text, min(max(line.Confidence(RIL.TEXTLINE) / 100, 0.0), 1.0))


@cache
def _engine(folder: str, language: str) -> Any:
    os.environ["OMP_THREAD_LIMIT"] = "1"  # before it loads: several children run at once
    from tesserocr import OEM, PSM, PyTessBaseAPI

    # AUTO keeps columns apart; one block (6) mixes them, and reads receipts no better (both err by 0.15).
    return PyTessBaseAPI(path=folder, lang=language, psm=PSM.AUTO, oem=OEM.LSTM_ONLY)
