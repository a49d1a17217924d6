"""Reads images by OCR, one after the other, with nothing around it: `python -m benchmarks.documents.bare_ocr FILE…`."""

import sys
from pathlib import Path

from penstock.extraction.ocr.task import ocr

LIMITS = {"pixels": 10**8, "characters": 5 * 10**7, "pages": 5000}
ARGUMENTS = {"media_type": "image/jpeg", "pages": [1], "language": "en", "engine": "auto", "limits": LIMITS}


def main() -> None:
    for name in sys.argv[1:]:
        with Path(name).open("rb") as file:
            read = ocr(file, ARGUMENTS, None)
        assert read["pages"]


if __name__ == "__main__":
    main()
