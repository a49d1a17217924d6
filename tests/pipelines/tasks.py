"""Tasks of a sandbox for these tests: OCR that dies of one page."""

import os
import signal
from typing import Any

DEADLY = 3


def ocr(file: Any, arguments: dict[str, Any], reply: Any) -> dict[str, Any]:
    """Tells which page it was given, in which process; page 3 kills it."""
    [number] = arguments["pages"]
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGSEGV)
    page = {"number": number, "text": f"This is page {number}.", "headings": [], "tables": [], "ocr": 0.9}
    return {"pages": [page], "gaps": []}
