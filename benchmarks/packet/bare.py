"""Reads pages of PDFs by OCR, with nothing around it: `python -m benchmarks.packet.bare PART OF FILE…`.

Every OFth page, from PART on: so several processes share each file.
"""

import sys
from pathlib import Path

import pikepdf

from penstock.extraction.ocr.task import ocr

LIMITS = {"pixels": 10**8, "characters": 5 * 10**7, "pages": 5000}


def main() -> None:
    part, several, *names = sys.argv[1:]
    for name in names:
        with Path(name).open("rb") as file:
            with pikepdf.open(file) as document:
                pages = list(range(1 + int(part), len(document.pages) + 1, int(several)))
            arguments = {"media_type": "application/pdf", "pages": pages, "language": "en", "engine": "auto"}
            read = ocr(file, arguments | {"limits": LIMITS}, None)
        assert len(read["pages"]) == len(pages)


if __name__ == "__main__":
    main()
