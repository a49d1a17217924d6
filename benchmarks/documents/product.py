"""The product in a home and a database of its own, as separate processes: what the measures of Penstock use."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.stage import ROOT, SideFailed

TIMEOUT = 900.0


class Installed:
    """One home, one database."""

    def __init__(self, url: str, home: Path, **environ: str) -> None:
        home.mkdir(exist_ok=True)
        self.url = url
        self.home = home
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
            "PENSTOCK_DATABASE_URL": url,
            "PENSTOCK_HOME": str(home),
            "PENSTOCK_LOG__FORMAT": "json",
            **environ,
        }

    async def command(self, *arguments: str) -> dict[str, Any]:
        """Run a command to its end: what it prints as JSON."""
        async with self.running(*arguments, "--json") as process:
            async with asyncio.timeout(TIMEOUT):
                out, err = await process.communicate()
        try:
            answer: dict[str, Any] = json.loads(out)
        except ValueError as error:
            raise SideFailed(f"penstock {arguments[0]} said no JSON ({error}): {err.decode()[-300:]}") from None
        return answer

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock", *arguments),
            cwd=ROOT,
            env=self._environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                await process.wait()

    @asynccontextmanager
    async def api(self) -> AsyncIterator[tuple[str, psutil.Process]]:
        """An API process: its address, and it."""
        async with self.running("api", "--port", "0") as process:
            assert process.stderr is not None
            async for line in process.stderr:
                if b'"url"' in line:
                    yield json.loads(line)["url"], psutil.Process(process.pid)
                    return
            raise SideFailed("the API did not start")

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[str]:
        """A worker process: the address of its metrics. What it logs is read, so that its pipe is never full."""
        async with self.running("worker", "--port", "0") as process:
            assert process.stderr is not None
            async for line in process.stderr:
                if found := re.search(rb"http://127\.0\.0\.1:\d+", line):
                    reading = asyncio.create_task(process.stderr.read())
                    yield found[0].decode()
                    reading.cancel()
                    return
            raise SideFailed("the worker did not start")


def family_memory(process: psutil.Process) -> int:
    """Bytes of the process and its children that are theirs alone, or their part of what they share."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
