"""What a piece of work took: seconds, CPU of this process and of the server, WAL.

CPU comes from /proc/PID/schedstat, in nanoseconds: the ticks of /proc/PID/stat are too coarse for a drain of half a second.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import psutil


def clock() -> float:
    """The same for all processes of the machine."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def cpu_of(pid: int) -> float:
    """Seconds on a CPU, of all threads; 0 for a process that is gone."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def server_cpus(postmaster: int) -> dict[int, float]:
    """Of each process of the server."""
    children = psutil.Process(postmaster).children(recursive=True)
    return {pid: cpu_of(pid) for pid in [postmaster, *(child.pid for child in children)]}


@dataclass(frozen=True)
class Mark:
    """A moment, and all counters at it."""

    at: float
    own_cpu: float
    server_cpu: dict[int, float]
    wal: int

    @classmethod
    async def take(cls, observer: Any, postmaster: int) -> Self:
        at, own_cpu = clock(), time.process_time()
        wal = await observer.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return cls(at, own_cpu, server_cpus(postmaster), int(wal))

    def moved(self) -> Self:
        """The same counters of the server, seen from now: looking at them would disturb what has just begun."""
        return replace(self, at=clock(), own_cpu=time.process_time())

    def until(self, end: "Mark") -> dict[str, float]:
        server = sum(cpu - self.server_cpu.get(pid, 0.0) for pid, cpu in end.server_cpu.items())
        return {
            "seconds": end.at - self.at,
            "own_cpu": end.own_cpu - self.own_cpu,
            "server_cpu": server,
            "wal": end.wal - self.wal,
        }
