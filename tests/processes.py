"""Real processes for tests: start one, wait for what it prints, kill it."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from tests.fork_server import ForkedProcess, fork


class Started:
    """A process and what it has printed so far."""

    def __init__(self, process: ForkedProcess) -> None:
        self.process = process
        self.pid = process.pid
        self.printed = ""

    async def until(self, text: str, within: float = 20) -> str:
        """Wait until `text` is printed; everything printed so far."""
        async with asyncio.timeout(within):
            while text not in self.printed:
                line = await self.process.stdout.readline()
                assert line, f"it ended without printing {text!r}:\n{self.printed}"
                self.printed += line.decode()
        return self.printed

    async def end(self, within: float = 20) -> int:
        """Wait for its end; the exit code."""
        async with asyncio.timeout(within):
            self.printed += (await self.process.stdout.read()).decode()
            return await self.process.wait()


@asynccontextmanager
async def start(
    *command: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[Started]:
    """Run Python with the arguments; it and all its descendants are dead at the end."""
    process = await fork(command, clean_environ(environ), cwd)
    family = _processes(process.pid)  # while it is there: later its number may be somebody else's
    started = Started(process)
    try:
        yield started
    finally:
        for relative in [*_descendants(family), *family]:
            with suppress(psutil.NoSuchProcess):
                if relative.is_running() and "postgres" not in relative.name():
                    relative.kill()
        await started.end()


def clean_environ(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Without the caller's own Penstock settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return kept | dict(extra or {})


async def penstock(*arguments: str, **environ: str) -> tuple[int, str]:
    """Run the command to its end: exit code and output."""
    async with start("-m", "penstock", *arguments, environ=environ) as started:
        code = await started.end(30)
        return code, started.printed


def _processes(pid: int) -> list[psutil.Process]:
    """None for one that has ended already."""
    try:
        return [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []


def _descendants(family: list[psutil.Process]) -> list[psutil.Process]:
    try:
        return [child for process in family for child in process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
