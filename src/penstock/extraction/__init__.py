"""Extraction: reads hostile documents in sandbox processes, and returns their text with its structure.

A worker calls a task of `SandboxPool` (sandbox/); the task "read" identifies the format (identify.py) and calls its reader
(dispatch.py). Public names are imported on first use, because a sandbox process imports this package and needs none of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.extraction.chunk import Chunk as Chunk
    from penstock.extraction.chunk import split_pages as split_pages
    from penstock.extraction.result import ExtractedDocument as ExtractedDocument
    from penstock.extraction.result import Gap as Gap
    from penstock.extraction.result import Page as Page
    from penstock.extraction.result import decode_gap as decode_gap
    from penstock.extraction.result import decode_page as decode_page
    from penstock.extraction.sandbox.pool import SandboxPool as SandboxPool

_HOMES = {
    **dict.fromkeys(("Chunk", "split_pages"), "penstock.extraction.chunk"),
    **dict.fromkeys(("ExtractedDocument", "Gap", "Page", "decode_gap", "decode_page"), "penstock.extraction.result"),
    "SandboxPool": "penstock.extraction.sandbox.pool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module penstock.extraction has no attribute {name}")
    return getattr(importlib.import_module(_HOMES[name]), name)
