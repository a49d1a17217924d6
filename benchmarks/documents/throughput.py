"""Documents per second, from files on a disk to the index, all durable: beside LangChain and beside a bare loop.

Each side is one command that ends when everything is in: process start, imports and loading the model are part of its time.
Penstock uploads, keeps the bytes, queues, reads in boxes and indexes; nobody does OCR.
"""

import asyncio
import json
import shutil
import sys
from pathlib import Path

from benchmarks.cost import clock
from benchmarks.documents.fileset import make_files
from benchmarks.documents.product import TIMEOUT, Installed
from benchmarks.report import Row, ratio
from benchmarks.stage import ROOT, SideFailed, Stage, rotated

SIDES = ("Penstock", "LangChain index()", "bare loop, 2 processes")


async def measure(stage: Stage) -> list[Row]:
    folder = stage.home / "files"
    folder.mkdir()
    files = make_files(folder, stage.scale.copies)
    rows = {side: Row("documents", side, "docs/s", []) for side in SIDES}
    for number in range(stage.scale.rounds):
        for side in rotated(SIDES, number):
            try:
                url = await stage.empty_database("documents")
                seconds, note = await _run(stage, side, url, folder, len(files))
                await stage.drop(url)
                rows[side].values.append(len(files) / seconds)
                rows[side].note = note
            except SideFailed as failure:
                rows[side].failure = str(failure)
    shutil.rmtree(folder)
    ours, langchain, loop = rows.values()
    return [
        *rows.values(),
        ratio("documents", "Penstock / LangChain", ours, langchain).judged("≥ 2", lambda value: value >= 2),
        ratio("documents", "Penstock / bare loop", ours, loop).judged("≥ 0.5", lambda value: value >= 0.5),
    ]


async def _run(stage: Stage, side: str, url: str, folder: Path, count: int) -> tuple[float, str]:
    if side == "Penstock":
        home = stage.home / "product"
        installed = Installed(url, home, PENSTOCK_EXTRACTION__OCR="off")
        await installed.command("status")  # migrates, as `penstock up` has long done
        began = clock()
        added = await installed.command("add", str(folder))
        seconds = clock() - began
        shutil.rmtree(home)
        if added["ready"] + added["failed"] < count:
            raise SideFailed(f"{added['ready']} ready and {added['failed']} failed of {count}")
        return seconds, f"{added['ready']} ready, {added['failed']} failed of {count} files"
    name = "langchain" if "LangChain" in side else "loop"
    if name == "loop":  # it writes Penstock's tables
        home = stage.home / "loop"
        await Installed(url, home).command("add", str(Path(__file__)))
        shutil.rmtree(home)
    began = clock()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.documents.side", name, url, str(folder)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        out, err = await process.communicate()
    seconds = clock() - began
    if process.returncode:
        raise SideFailed(err.decode().strip().splitlines()[-1][:300])
    return seconds, f"{json.loads(out.splitlines()[-1])['chunks']:,} chunks"
