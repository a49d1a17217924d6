"""RapidOCR: finds lines in an image and reads them, with the models of its wheel.

Nothing is ever fetched: the paths of the models are given, which is the only case in which RapidOCR does not look for a
download. One thread, because several children run at once. Measured on receipts: with detection at 960 pixels and without
the classifier of upside-down lines it takes half the time of its defaults, with no more errors.
"""

import logging
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import Unsupported
from penstock.extraction.ocr.layout import Box

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

LONGEST = 2000  # pixels: RapidOCR shrinks what is longer before it cuts the lines out
DETECTION = 960  # pixels of the longer side in which lines are looked for
# The bundled model knows Chinese, Japanese and the languages that write with Latin letters.
LANGUAGES = frozenset(
    {"ch", "zh", "ja", "en", "la", "af", "az", "bs", "cs", "cy", "da", "de", "es", "et", "eu", "fi", "fr", "ga", "gl"}
    | {"hr", "hu", "id", "is", "it", "ku", "lt", "lv", "mi", "ms", "mt", "nl", "no", "oc", "pl", "pt", "ro", "sk", "sl"}
    | {"sq", "sv", "sw", "tl", "tr", "uz"}
)


def read_lines(image: "Image.Image") -> list[Box]:
    """Lines with their place; y grows downwards, and the slope of the page is taken out."""
    import numpy as np

    found = _engine()(
        np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])
    )  # it takes BGR, as OpenCV does
    if found.boxes is None or not found.txts:
        return []
    return straighten(np.asarray(found.boxes, dtype=float), found.txts, found.scores)


def straighten(corners: "np.ndarray[Any, Any]", texts: "tuple[str, ...]", scores: "tuple[float, ...]") -> list[Box]:
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
        Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2, text, float(score))
        for (x, y), width, height, text, score in zip(
            centres.tolist(), widths.tolist(), heights.tolist(), texts, scores, strict=True
        )
    ]


@cache
def _engine() -> Any:
    package = find_spec("rapidocr")
    if package is None or package.origin is None:
        raise Unsupported("This document is a scan, and RapidOCR, which reads scans, is not installed.")
    models = Path(package.origin).parent / "models"
    paths = {
        "Det.model_path": next(models.glob("*_det_*.onnx"), None),
        "Rec.model_path": next(models.glob("*_rec_*.onnx"), None),
    }
    if None in paths.values():
        raise Unsupported("This document is a scan, and the installed RapidOCR has no models inside of it.")
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
