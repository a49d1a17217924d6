"""A large upload: how fast, beside `cp` and sha256 of the same file on the same disk, and what it does to the API's memory."""

import asyncio
import os
import shutil
from pathlib import Path

import aiohttp
import psutil

from benchmarks.cost import clock
from benchmarks.documents.product import Installed
from benchmarks.report import Row, ratio
from benchmarks.stage import Stage


async def measure(stage: Stage) -> list[Row]:
    size = stage.scale.upload
    source = stage.home / "large.bin"
    with source.open("wb") as file:
        for _ in range(size // 2**20):
            file.write(os.urandom(2**20))
    installed = Installed(await stage.empty_database("upload"), stage.home / "upload", PENSTOCK_LIMITS__BYTES="4GB")
    puts = Row("upload", f"PUT of {size // 2**20} MB", "MB/s", [])
    copies = Row("upload", "cp + sync + sha256sum", "MB/s", [])
    grown = Row("upload", "memory of the API, growth", "MB", [])
    async with installed.api() as (address, process), aiohttp.ClientSession() as http:
        async with http.post(f"{address}/api/collections", json={"name": "large"}) as answer:
            answer.raise_for_status()
        for number in range(stage.scale.rounds):
            seconds, growth = await _put(http, address, process, source, number)
            puts.values.append(size / 2**20 / seconds)
            grown.values.append(growth / 2**20)
            copies.values.append(size / 2**20 / await _copy(source))
    source.unlink()
    shutil.rmtree(installed.home)
    return [
        puts,
        copies,
        ratio("upload", "PUT / cp + sha256", puts, copies).judged("≥ 0.5", lambda value: value >= 0.5),
        grown.judged("≤ 64", lambda value: value <= 64),
    ]


async def _put(
    http: aiohttp.ClientSession, address: str, process: psutil.Process, source: Path, number: int
) -> tuple[float, int]:
    before = most = process.memory_info().rss

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, process.memory_info().rss)
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    with source.open("rb") as file:
        # Another first byte each time: the same content again would be kept once.
        file.seek(number)
        began = clock()
        async with http.put(f"{address}/api/collections/large/documents/{number}.bin", data=file) as answer:
            assert answer.status == 202, await answer.text()
        seconds = clock() - began
    watching.cancel()
    return seconds, most - before


async def _copy(source: Path) -> float:
    """What anybody must do: write the bytes, make them last, hash them."""
    target = source.with_suffix(".copy")
    script = 'cp "$1" "$2" && sync "$2" && sha256sum "$2" > /dev/null'
    began = clock()
    process = await asyncio.create_subprocess_exec("sh", "-c", script, "sh", source, target)
    assert await process.wait() == 0
    seconds = clock() - began
    target.unlink()
    return seconds
