"""Boxes with the tasks of box_tasks.py, and limits that a test reaches soon."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from penstock.extraction import Boxes
from penstock.settings import Settings
from penstock.settings.model import ExtractionSettings
from tests.extraction import box_tasks

ROOT = Path(__file__).parents[2]
TASKS = {
    name: f"tests.extraction.box_tasks:{name}"
    for name, task in vars(box_tasks).items()
    if callable(task) and getattr(task, "__module__", "") == box_tasks.__name__
} | {"ocr": "tests.extraction.box_tasks:pid"}


def make_boxes(**chosen: Any) -> Boxes:
    defaults = {"children": 2, "memory": 256 * 2**20, "timeout": timedelta(seconds=20)}
    settings = Settings(extraction=ExtractionSettings(**(defaults | chosen)))
    return Boxes(settings, tasks=TASKS, paths=[str(ROOT)])


@contextmanager
def document(content: bytes = b"a document") -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file
