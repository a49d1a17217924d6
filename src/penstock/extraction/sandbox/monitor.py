"""The resource limits of a sandbox process while it works: memory and processor time from /proc, and the clock.

Memory is the resident size, because limits of the address space break onnxruntime. Processor time is the limit on a busy
machine; the clock ends a task only after twice as long, or when the process makes no progress. A tick that comes late (this
process was stopped, or its loop was busy) is not counted. A document that exceeds memory or processor time would do so again
(`TooMuch`); one that the clock ends may have met a busy machine (`ResourceLimit`).
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from penstock.errors import JobFailure, ResourceLimit, TooMuch
from penstock.settings import format_duration, format_size

EVERY = 0.05
LATE = 0.5  # of one tick's time, at most, counts
PATIENCE = 2  # times the timeout by the clock
MOST_FILES = 2_000
STORAGE_EVERY = 10  # ticks
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ResourceLimits:
    """The resources that a task may use."""

    memory: int
    seconds: float
    scratch: str  # the folder that it writes in: as much as its memory


@dataclass
class ResourceUse:
    """The resources that a sandbox process uses now."""

    memory: int = 0
    cpu: float = 0.0


class ProcStat:
    """The counters of a process in /proc, by files that stay open: they are never those of a later process with its pid."""

    def __init__(self, pid: int) -> None:
        self._memory = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
        self._times = os.open(f"/proc/{pid}/stat", os.O_RDONLY)

    def read(self) -> ResourceUse:
        """Zeros for a process that has ended."""
        return ResourceUse(self.memory(), self.cpu())

    def memory(self) -> int:
        with suppress(OSError, IndexError):
            return int(os.pread(self._memory, 200, 0).split(None, 2)[1]) * PAGE
        return 0

    def cpu(self) -> float:
        with suppress(OSError, IndexError):
            return _seconds(os.pread(self._times, 2000, 0))
        return 0.0

    def close(self) -> None:
        os.close(self._memory)
        os.close(self._times)


def _seconds(stat: bytes) -> float:
    fields = stat.rpartition(b")")[2].split()  # a name may hold anything, also spaces and brackets
    return sum(map(int, fields[11:13])) / TICK


def stored(folder: str) -> float:
    """Bytes on disk below the folder; infinitely many when there are too many files to count."""
    size, seen, waiting = 0, 0, [folder]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > MOST_FILES:
                    return inf
                size += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return size


class Monitor:
    """Ends a task that takes too much, by calling `end` with the reason."""

    def __init__(self, stat: ProcStat, allowed: ResourceLimits, end: Callable[[JobFailure], None]) -> None:
        self._stat = stat
        self._allowed = allowed
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._cpu_before = stat.cpu()
        self._at = self._loop.time()
        self._clock = 0.0
        self._moved = (0.0, 0.0)  # when it last made progress: the clock, and its processor time
        self._paused = False
        self._ticks = 0
        self.peak = 0  # the largest memory that was measured
        self._next = self._loop.call_later(EVERY, self._tick)

    def pause(self) -> None:
        """Stop the clock: the sandbox waits for the parent."""
        self._count()
        self._paused = True

    def resume(self) -> None:
        self._count()
        self._paused = False

    def stop(self) -> None:
        self._next.cancel()

    def _count(self) -> None:
        now = self._loop.time()
        if not self._paused:
            self._clock += min(now - self._at, LATE)
        self._at = now

    def _tick(self) -> None:
        self._count()
        self._ticks += 1
        use = self._stat.read()
        self.peak = max(self.peak, use.memory)
        cpu = use.cpu - self._cpu_before
        if cpu - self._moved[1] >= 0.05 or self._paused:
            self._moved = (self._clock, cpu)
        reason = self._too_much(use, cpu)
        if reason is not None:
            self._end(reason)
        else:
            self._next = self._loop.call_later(EVERY, self._tick)

    def _too_much(self, use: ResourceUse, cpu: float) -> JobFailure | None:
        if use.memory > self._allowed.memory:
            return TooMuch(memory_sentence(self._allowed.memory))
        if self._ticks % STORAGE_EVERY == 0 and stored(self._allowed.scratch) > self._allowed.memory:
            size = format_size(self._allowed.memory)
            return TooMuch(f"Reading the file wrote more than {size} to the disk (extraction.memory).")
        still = self._clock - self._moved[0]
        return overtime(self._allowed.seconds, cpu=cpu, clock=self._clock, still=still)


def overtime(timeout: float, *, cpu: float, clock: float, still: float) -> JobFailure | None:
    """The reason to end a task after so much processor time, time by the clock, and time without progress; else None."""
    if cpu > timeout:
        return TooMuch(f"Reading the file needed more than {_spoken(timeout)} of processor time (extraction.timeout).")
    if clock > timeout * PATIENCE:
        took = _spoken(timeout * PATIENCE)
        return ResourceLimit(f"Reading the file took longer than {took} ({PATIENCE} times extraction.timeout).")
    if clock > timeout and still > max(timeout / 2, 0.5):
        return ResourceLimit(
            f"Reading the file made no progress, and was ended after {_spoken(timeout)} (extraction.timeout)."
        )
    return None


def memory_sentence(memory: int) -> str:
    return f"Reading the file needed more than {format_size(memory)} of memory (extraction.memory)."


def _spoken(seconds: float) -> str:
    return format_duration(timedelta(seconds=round(seconds, 3)))
