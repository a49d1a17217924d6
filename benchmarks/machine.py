"""The machine that figures belong to."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil


async def describe(admin: Any) -> dict[str, str]:
    """Cores, CPU, memory, versions; the load tells whether anybody else was at work."""
    server = await admin.fetchval("select current_setting('server_version')")
    names = ("shared_buffers", "fsync", "synchronous_commit", "full_page_writes")
    settings = [f"{name} {await admin.fetchval('select current_setting($1)', name)}" for name in names]
    packages = ("asyncpg", "uvloop", "pgqueuer", "procrastinate", "psycopg")
    return {
        "cores": f"{len(os.sched_getaffinity(0))}",
        "CPU": _cpu(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "PostgreSQL": f"{server} (embedded; {', '.join(settings)})",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in packages),
        "load before": f"{os.getloadavg()[0]:.2f} (1 min), {os.getloadavg()[1]:.2f} (5 min)",
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
