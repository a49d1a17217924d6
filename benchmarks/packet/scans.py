"""A packet of 400 scanned pages: its time beside the same OCR in bare processes, and the worker's memory beside 100 pages.

The pages are the same on both sides, and so is the engine; a bare process opens each document once and does nothing else.
Memory is what the worker and its children have for themselves, at most, looked at twice a second, each time in a worker that
was just started. Processor time is shown, too: others on the machine disturb it less. The worker's own counters say whether a
transaction sat idle on its connection for longer than 250 ms.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import aiohttp
import psutil

from benchmarks.cost import clock
from benchmarks.documents.product import Installed, family_memory
from benchmarks.packet.client import TIMEOUT, client, send_packet, until_ready
from benchmarks.packet.papers import scanned_files
from benchmarks.report import Row, ratio
from benchmarks.stage import ROOT, SideFailed, Stage

FEW, MANY = 100, 400
ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+")


@dataclass
class Run:
    """One packet in a worker of its own."""

    seconds: float
    processor: float  # seconds of the worker and its children
    family: float  # megabytes, at most
    worker: float
    overheld: int


async def measure(stage: Stage) -> list[Row]:
    ours, bare = Row("packet", f"Penstock, {MANY} pages", "s", []), Row("packet", "bare processes", "s", [])
    busy, bare_busy = (Row("packet", f"processor time, {side}", "s", []) for side in ("Penstock", "bare"))
    few, many = (Row("packet", f"memory, {count} pages", "MB", []) for count in (FEW, MANY))
    alone_few, alone_many = (Row("packet", f"the worker's own, {count} pages", "MB", []) for count in (FEW, MANY))
    held = Row("packet", "connections held idle", "holds", [], note="for longer than 250 ms, by the pool's counter")
    files = scanned_files(MANY)
    short = dict(list(files.items())[: FEW * len(files) // MANY])
    for number in range(stage.scale.rounds):
        runs = [await _prepare(stage, content) for content in (short, files)]
        for run, family, alone in zip(runs, (few, many), (alone_few, alone_many), strict=True):
            family.values.append(run.family)
            alone.values.append(run.worker)
        ours.values.append(runs[1].seconds)
        held.values.append(sum(run.overheld for run in runs))
        busy.values.append(runs[1].processor)
        seconds, processor = await _bare(stage, files, number)
        bare.values.append(seconds)
        bare_busy.values.append(processor)
    slower = ratio("packet", "Penstock / bare", ours, bare).judged("≤ 1.3", lambda value: value <= 1.3)
    work = ratio("packet", "processor time, Penstock / bare", busy, bare_busy)
    growth = ratio("packet", "memory, 400 / 100 pages", many, few)
    alone = ratio("packet", "the worker's own, 400 / 100", alone_many, alone_few)
    return [
        *(ours, bare, slower, busy, bare_busy, work.judged("≤ 1.3", lambda value: value <= 1.3)),
        *(few, many, growth.judged("≤ 1.2", lambda value: value <= 1.2)),
        *(alone_few, alone_many, alone.judged("≤ 1.2", lambda value: value <= 1.2)),
        held.judged("0", lambda value: value == 0),
    ]


async def _prepare(stage: Stage, files: Mapping[str, bytes]) -> Run:
    home = stage.home / "packet"
    url = await stage.empty_database("packet")
    installed = Installed(url, home)
    await installed.command("status")
    async with installed.running("worker", "--port", "0") as worker, client(url, home) as product:
        address = await _address(worker)
        process = psutil.Process(worker.pid)
        began = clock()
        preparing = asyncio.create_task(until_ready(product, await send_packet(product, "scans", files)))
        family = own = 0
        while not preparing.done():
            await asyncio.wait([preparing], timeout=0.5)
            family = max(family, family_memory(process))
            own = max(own, process.memory_full_info().pss)
        shown = await preparing
        seconds = clock() - began
        processor = _processor_time(process)
        if shown.gaps:
            raise SideFailed(f"the packet has gaps: {shown.gaps[:3]}")
        overheld = await _count_overheld(address)
    shutil.rmtree(home)
    await stage.drop(url)
    return Run(seconds, processor, family / 2**20, own / 2**20, overheld)


def _processor_time(process: psutil.Process) -> float:
    """Seconds since its start, with its children, also those that have ended: a busy machine does not change them much."""
    own = sum(process.cpu_times()[:4])
    return own + sum(sum(child.cpu_times()[:4]) for child in process.children(recursive=True))


async def _address(worker: asyncio.subprocess.Process) -> str:
    """Where its counters are, by its log; the rest of that is read, too, so that the pipe is never full."""
    assert worker.stderr is not None
    async for line in worker.stderr:
        if found := ADDRESS.search(line):
            _drains.add(asyncio.create_task(worker.stderr.read()))
            return found[0].decode()
    raise SideFailed("the worker did not start")


_drains: set["asyncio.Task[bytes]"] = set()


async def _count_overheld(address: str) -> int:
    async with aiohttp.ClientSession() as http, http.get(f"{address}/metrics") as answer:
        text = await answer.text()
    found = re.search(r"^penstock_pool_overholds_total (\S+)", text, re.MULTILINE)
    return int(float(found[1])) if found else 0


async def _bare(stage: Stage, files: Mapping[str, bytes], number: int) -> tuple[float, float]:
    """Seconds, and those of processors."""
    folder: Path = stage.home / f"bare-{number}"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    several = len(os.sched_getaffinity(0))
    command = (sys.executable, "-m", "benchmarks.packet.bare")
    began, before = clock(), getrusage(RUSAGE_CHILDREN)
    processes = [
        await asyncio.create_subprocess_exec(
            *command, str(part), str(several), *sorted(map(str, folder.iterdir())), cwd=ROOT
        )
        for part in range(several)
    ]
    async with asyncio.timeout(TIMEOUT):
        codes = [await process.wait() for process in processes]
    if any(codes):
        raise SideFailed(f"a bare process ended with {codes}")
    seconds, after = clock() - began, getrusage(RUSAGE_CHILDREN)
    shutil.rmtree(folder)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
