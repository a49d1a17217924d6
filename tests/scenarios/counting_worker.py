"""A worker of the product that writes down each page before OCR reads it: `python -m tests.scenarios.counting_worker`.

Its OCR is quick, and says which page it was given. A page whose number stands in the file `torn` of the home cannot be read
just now. It has failpoints of its own: `step:page N`, and `step:KIND before-commit` and the like for the end of one kind of
jobs, because those of the engine are reached by the outcomes of all others, too.
"""

import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

from penstock.database import Session
from penstock.engine.failpoint import STEP, reach
from penstock.errors import Transient
from penstock.extraction import SandboxPool
from penstock.extraction.sandbox.pool import TASKS
from penstock.settings import Settings

ROOT = Path(__file__).parents[2]


def ocr(file: Any, arguments: dict[str, Any], reply: Any) -> dict[str, Any]:
    """What a sandbox runs in place of OCR."""
    [number] = arguments["pages"]
    text = f"This is page {number} of the scan, and tells of its turbine."
    return {"pages": [{"number": number, "text": text, "headings": [], "tables": [], "ocr": 0.9}], "gaps": []}


class CountingSandboxPool(SandboxPool):
    """Each page goes into `pages.log` of the home, whoever reads it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, tasks=TASKS | {"ocr": "tests.scenarios.counting_worker:ocr"}, paths=[str(ROOT)])
        self._home = settings.home

    async def call(self, task: str, file: BinaryIO, arguments: dict[str, Any], **options: Any) -> Any:
        if task == "ocr":
            [number] = arguments["pages"]
            _write_down(self._home / "pages.log", f"{options['name']} {number}\n")
            reach(f"{STEP}page {number}")
            torn = self._home / "torn"
            if torn.exists() and str(number) in torn.read_text().split():
                raise Transient(f"Page {number} cannot be read just now.")
        return await super().call(task, file, arguments, **options)


def pages_read(home: Path, name: str) -> list[int]:
    """The pages of a packet that OCR was asked for, in that order, by all workers."""
    log = home / "pages.log"
    lines = [line.rpartition(" ") for line in log.read_text().splitlines()] if log.exists() else []
    return [int(number) for packet, _, number in lines if packet == name]


def reach_with_kind(name: str, session: Session | None = None) -> None:
    """In place of `reach` in the engine's context: the job whose end it is stands in the caller's frame."""
    reach(name, session)
    job = sys._getframe(1).f_locals.get("job")
    if job is not None:
        reach(f"{STEP}{job.kind} {name}", session)


def _write_down(log: Path, line: str) -> None:
    """At once and whole: several processes write, and each may be killed behind it."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line.encode())
    os.close(file)


if __name__ == "__main__":
    from penstock import product
    from penstock.cli import server
    from penstock.engine import context

    setattr(product, "SandboxPool", CountingSandboxPool)  # noqa: B010  it is no part of what that module exports
    setattr(context, "reach", reach_with_kind)  # noqa: B010
    server.worker(sources="none")
