"""A large upload passes through the API process, and stays in it nowhere."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil

from penstock.settings import DatabaseUrl
from tests.processes import start

SIZE = 200 * 2**20
PIECE = bytes(2**20)


async def content() -> AsyncIterator[bytes]:
    for _ in range(SIZE // len(PIECE)):
        yield PIECE


async def watch(process: psutil.Process, seen: list[int]) -> None:
    """Until it is cancelled."""
    while True:
        seen.append(process.memory_info().rss)
        await asyncio.sleep(0.02)


async def test_a_large_upload_needs_little_memory(database_url: DatabaseUrl, tmp_path: Path) -> None:
    environ = {
        "PENSTOCK_HOME": str(tmp_path),
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_LOG__FORMAT": "json",
    }
    async with (
        start("-m", "penstock", "api", "--port", "0", environ=environ) as server,
        aiohttp.ClientSession() as client,
    ):
        found = re.search(r"http://127\.0\.0\.1:\d+", await server.until("listening"))
        assert found is not None
        url = found[0]
        async with client.post(f"{url}/api/collections", json={"name": "mill"}) as answer:
            assert answer.status == 201
        documents = f"{url}/api/collections/mill/documents"
        async with client.put(
            f"{documents}/small.bin", data=PIECE[:1000]
        ) as answer:  # what is loaded once is loaded now
            assert answer.status == 202
        process = psutil.Process(server.pid)
        seen: list[int] = []
        before = process.memory_info().rss
        watching = asyncio.create_task(watch(process, seen))
        async with client.put(f"{documents}/large.bin", data=content()) as answer:
            assert (answer.status, json.loads(await answer.read())["size"]) == (202, SIZE)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    assert max(seen) - before <= 64 * 2**20
