"""The server of models that takes its time (slow.py), as the benchmark sees it: a process and what it has counted."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.stage import ROOT, SideFailed

DIMENSIONS = 64


class ModelServer:
    """Where it is, and what it tells."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def begin(self) -> None:
        async with aiohttp.ClientSession() as http, http.delete(f"http://127.0.0.1:{self._port}/counts"):
            return

    async def counts(self) -> dict[str, Any]:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{self._port}/counts") as answer:
            told: dict[str, Any] = await answer.json()
            return told


@asynccontextmanager
async def model_server(seconds: float) -> AsyncIterator[ModelServer]:
    """In a process of its own: it must not share a loop with whoever asks it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.models.slow", str(seconds)), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        if not line:
            raise SideFailed("the server of the models did not start")
        yield ModelServer(int(line))
    finally:
        process.terminate()
        await process.wait()
