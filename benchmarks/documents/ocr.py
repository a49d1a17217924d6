"""OCR by the fleet beside bare processes: the same pages, the same engine, as many processes as there are processors."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from benchmarks.cost import clock
from benchmarks.documents.fileset import corpus
from benchmarks.documents.product import TIMEOUT, Installed
from benchmarks.report import Row, ratio
from benchmarks.stage import ROOT, SideFailed, Stage, rotated

PAGES = 24
SIDES = ("Penstock", "bare processes")


async def measure(stage: Stage) -> list[Row]:
    folder = stage.home / "receipts"
    folder.mkdir()
    for path in sorted(corpus("ocr").glob("*.jpg"))[:PAGES]:
        shutil.copyfile(path, folder / path.name)
    count = len(list(folder.iterdir()))
    rows = {side: Row("ocr", side, "pages/s", []) for side in SIDES}
    for number in range(stage.scale.rounds):
        for side in rotated(SIDES, number):
            rows[side].values.append(count / await (_ours(stage, folder) if side == "Penstock" else _bare(folder)))
    shutil.rmtree(folder)
    ours, bare = rows.values()
    return [ours, bare, ratio("ocr", "Penstock / bare", ours, bare).judged("≥ 0.85", lambda value: value >= 0.85)]


async def _ours(stage: Stage, folder: Path) -> float:
    home = stage.home / "ocr"
    installed = Installed(await stage.empty_database("ocr"), home)
    await installed.command("status")
    began = clock()
    added = await installed.command("add", str(folder))
    seconds = clock() - began
    shutil.rmtree(home)
    if added["failed"]:
        raise SideFailed(f"{added['failed']} of the pages failed")
    return seconds


async def _bare(folder: Path) -> float:
    paths = sorted(map(str, folder.iterdir()))
    several = len(os.sched_getaffinity(0))
    began = clock()
    command = (sys.executable, "-m", "benchmarks.documents.bare_ocr")
    processes = [
        await asyncio.create_subprocess_exec(*command, *paths[part::several], cwd=ROOT) for part in range(several)
    ]
    async with asyncio.timeout(TIMEOUT):
        codes = [await process.wait() for process in processes]
    if any(codes):
        raise SideFailed(f"a bare process ended with {codes}")
    return clock() - began
