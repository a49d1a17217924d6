"""What every long-running command does: logging, signals, and one event loop.

SIGTERM and SIGINT set `Stop.requested`; a second signal ends the process at once. A child of `penstock up` also stops
when its standard input closes, which the kernel does when the parent dies, however it dies.
"""

import asyncio
import ctypes
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from signal import SIGINT, SIGTERM, Signals

import uvloop

from penstock.cli.tracing import exporting
from penstock.settings import Settings
from penstock.telemetry import configure_logging, hide_secrets

COLLECT_AFTER = 50_000  # objects: some megabytes
M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1  # of malloc.h
LARGE = 2**22  # bytes that are given back to the system as soon as they are free
GIVE_BACK_EVERY = 2.0  # seconds: everything else that is free


@dataclass
class Stop:
    """The wish to end, and how it was said."""

    requested: asyncio.Event = field(default_factory=asyncio.Event)
    signal: Signals | None = None

    def ask(self, by: Signals | None) -> None:
        if self.requested.is_set():
            os._exit(128 + by if by else 1)
        self.signal = by
        self.requested.set()


def run_until_stopped(
    settings: Settings, main: Callable[[Stop], Awaitable[int]], *, with_parent: bool = False, role: str = ""
) -> int:
    """Run `main` with a `Stop` that signals set; its result is the exit code."""
    hide_secrets(settings)
    configure_logging(settings.log)
    give_back = _arrange_memory()

    async def body() -> int:
        stop = Stop()
        loop = asyncio.get_running_loop()
        for wish in (SIGINT, SIGTERM):
            loop.add_signal_handler(wish, stop.ask, wish)
        _repeat(loop, give_back)
        if with_parent:
            loop.add_reader(sys.stdin.fileno(), _parent_died, loop, stop)
        code = await main(stop)
        await _end_tasks(code)
        return code

    with exporting(role) if role else nullcontext():
        return uvloop.run(body())


def _arrange_memory() -> Callable[[], object]:
    """For a process that works for long, on one text after the other; returns what gives free memory back to the system."""
    # What is loaded stays, so nobody need look at it again; looking after every 700 new objects takes 5 % of a worker's time.
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)
    # glibc gives each thread a heap of its own, which keeps what its largest texts needed: a fifth more memory in all. Only
    # what is very large goes back at once: with 256 kB it was half of all page faults, some 150 for each document.
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, 2 * LARGE)
        return partial(libc.malloc_trim, 0)
    except (AttributeError, OSError):  # another C library
        return lambda: None


def _repeat(loop: asyncio.AbstractEventLoop, give_back: Callable[[], object]) -> None:
    give_back()
    loop.call_later(GIVE_BACK_EVERY, _repeat, loop, give_back)


async def _end_tasks(code: int) -> None:
    """A task that ignores its cancellation would keep the whole process alive: the loop waits for it without bound."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=1.0))[1]:
        logging.shutdown()
        os._exit(code)


def _parent_died(loop: asyncio.AbstractEventLoop, stop: Stop) -> None:
    """Nobody writes to this pipe: it becomes readable only by closing."""
    loop.remove_reader(sys.stdin.fileno())
    stop.ask(None)
