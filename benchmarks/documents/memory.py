"""The memory of a worker with its children over many documents: flat after the first hundred."""

import asyncio
import shutil
import statistics

import asyncpg
import psutil

from benchmarks.documents.fileset import make_files
from benchmarks.documents.product import Installed, family_memory
from benchmarks.report import Row
from benchmarks.stage import Stage

FIRST = 100


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("memory")
    home, folder = stage.home / "memory", stage.home / "watched"
    folder.mkdir()
    made: list[object] = []
    while len(made) < stage.scale.watched:
        made += make_files(folder, 1 + stage.scale.watched // 115)
    installed = Installed(url, home, PENSTOCK_EXTRACTION__OCR="off")
    await installed.command("status")
    connection = await asyncpg.connect(url)
    samples: list[tuple[int, int]] = []
    async with installed.running("worker") as worker:
        process = psutil.Process(worker.pid)
        adding = asyncio.create_task(installed.command("add", str(folder)))
        over = 0
        while over < len(made):
            await asyncio.sleep(0.5)
            query = "select count(*) from penstock.documents where state <> 'queued' and parent_id is null"
            over = await connection.fetchval(query)
            samples.append((over, family_memory(process)))
        await adding
    await connection.close()
    shutil.rmtree(home)
    shutil.rmtree(folder)
    early = [memory for count, memory in samples if FIRST <= count <= 3 * FIRST] or [samples[0][1]]
    late = [memory for count, memory in samples[-max(3, len(samples) // 5) :]]
    growth = statistics.median(late) / statistics.median(early)
    return [
        Row("memory", f"after {FIRST} documents", "MB", [statistics.median(early) / 2**20]),
        Row("memory", f"after {len(made)}", "MB", [statistics.median(late) / 2**20]),
        Row("memory", "growth after the first hundred", "×", [growth]).judged("≤ 1.15", lambda value: value <= 1.15),
    ]
