"""The memory of a worker with its children over many documents: flat after the first hundred.

The first hundred are each file once, the large ones among them. What is left at rest is compared, because a process that is
just reading a large file needs more than one that is not; the peak of both parts is shown, too.
"""

import asyncio
import shutil
from pathlib import Path

import psutil

from benchmarks.documents.fileset import make_files
from benchmarks.documents.product import Installed, family_memory
from benchmarks.report import Row, ratio
from benchmarks.stage import Stage


async def measure(stage: Stage) -> list[Row]:
    first, others = stage.home / "first", stage.home / "others"
    first.mkdir()
    others.mkdir()
    once = len(make_files(first, 1))
    many = len(make_files(others, stage.scale.watched // once))
    before = Row("memory", f"at rest after {once} documents", "MB", [])
    after = Row("memory", f"at rest after {many} more", "MB", [])
    for _ in range(stage.scale.rounds):
        home = stage.home / "memory"
        installed = Installed(await stage.empty_database("memory"), home, PENSTOCK_EXTRACTION__OCR="off")
        await installed.command("status")
        async with installed.running("worker") as worker:
            for row, folder in ((before, first), (after, others)):
                rest, most = await _prepare(installed, psutil.Process(worker.pid), folder)
                row.values.append(rest)
                row.note = f"at most {most:.0f}"
        shutil.rmtree(home)
    for folder in (first, others):
        shutil.rmtree(folder)
    growth = ratio("memory", "growth", after, before)
    return [before, after, growth.judged("≤ 1.15", lambda value: value <= 1.15)]


async def _prepare(installed: Installed, process: psutil.Process, folder: Path) -> tuple[float, float]:
    """Megabytes when all of the folder is ready, and at most meanwhile."""
    adding = asyncio.create_task(installed.command("add", str(folder), "--wait", "-c", folder.name, "--create"))
    most = 0
    while not adding.done():
        await asyncio.sleep(0.5)
        most = max(most, family_memory(process))
    await adding
    await asyncio.sleep(1)
    return family_memory(process) / 2**20, most / 2**20
