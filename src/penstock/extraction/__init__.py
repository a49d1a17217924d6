"""Reading documents: hostile bytes in, text with its structure out, in processes of their own (`Boxes`).

Names are imported when they are used: a reader process passes through here first, and needs none of the parent's side.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.extraction.box.boxes import Boxes as Boxes
    from penstock.extraction.box.exchange import Sink as Sink
    from penstock.extraction.reading import Page as Page
    from penstock.extraction.reading import Reading as Reading

_HOMES = {
    "Boxes": "penstock.extraction.box.boxes",
    "Page": "penstock.extraction.reading",
    "Reading": "penstock.extraction.reading",
    "Sink": "penstock.extraction.box.exchange",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module penstock.extraction has no attribute {name}")
    return getattr(importlib.import_module(_HOMES[name]), name)
