"""Sandboxes with the tasks of sandbox_tasks.py, and limits that a test reaches soon."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from penstock.extraction import SandboxPool
from penstock.settings import Settings
from penstock.settings.settings import ExtractionSettings
from tests.extraction import sandbox_tasks

ROOT = Path(__file__).parents[2]
TASKS = {
    name: f"tests.extraction.sandbox_tasks:{name}"
    for name, task in vars(sandbox_tasks).items()
    if callable(task) and getattr(task, "__module__", "") == sandbox_tasks.__name__
} | {"ocr": "tests.extraction.sandbox_tasks:pid"}


def make_sandboxes(**chosen: Any) -> SandboxPool:
    defaults = {"children": 2, "memory": 256 * 2**20, "timeout": timedelta(seconds=20)}
    settings = Settings(extraction=ExtractionSettings(**(defaults | chosen)))
    return SandboxPool(settings, tasks=TASKS, paths=[str(ROOT)])


@contextmanager
def document(content: bytes = b"a document") -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file
