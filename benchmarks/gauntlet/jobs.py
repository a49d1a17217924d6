"""The jobs of the gauntlet, the same for every system, and the two records that they leave.

The ledger is a file next to the workers: each line is synced before the job goes on. Effects are rows of a plain table, the one
thing that a scenario counts: a job is done if its effect is there, and done twice if it is there twice.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import asyncpg

TABLES = """
create table effects (
  n int not null, pid int not null, at double precision not null default extract(epoch from clock_timestamp())
);
create table orders (n int primary key);
"""
EFFECT = "insert into effects (n, pid) values ({n}, {pid})"
TICK = 0.5  # seconds between two signs of life of a long job


@dataclass(frozen=True)
class Job:
    """One job. Its number is its identity in ledger and effects."""

    n: int
    kind: str = "work"
    seconds: float = 0.0

    @classmethod
    def read(cls, stored: Any) -> Self:
        return cls(**(json.loads(stored) if isinstance(stored, str | bytes) else stored))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Place:
    """Where one scenario of one system runs: its database, its folder, and for Celery its broker."""

    url: str
    home: Path
    broker: str = ""

    @property
    def away(self) -> Path:
        """While this file exists, the dependency is away."""
        return self.home / "away"

    def note(self, what: str, n: int = 0) -> None:
        """Append a line to the ledger and sync it."""
        line = json.dumps({"what": what, "n": n, "pid": os.getpid(), "at": time.time()}) + "\n"
        ledger = os.open(self.home / "ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(ledger, line.encode())
            os.fsync(ledger)
        finally:
            os.close(ledger)

    def ledger(self) -> list[dict[str, Any]]:
        path = self.home / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def once(self, name: str) -> bool:
        """Whether this is the first call with that name, in any process."""
        try:
            (self.home / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Run:
    """One attempt. Systems override the parts for which they offer something better than the plain way."""

    def __init__(self, place: Place, job: Job) -> None:
        self.place = place
        self.job = job

    @property
    def insert(self) -> str:
        return EFFECT.format(n=self.job.n, pid=os.getpid())

    async def effect(self) -> None:
        """Write the effect, on a connection of the handler's own."""
        connection = await asyncpg.connect(self.place.url, timeout=5)
        try:
            await connection.execute(self.insert)
            self.crash()
        finally:
            await connection.close()

    def crash(self) -> None:
        """Die right after the effect was committed, in the first attempt of a job of that kind."""
        if self.job.kind == "die after effect" and self.place.once("died"):
            die()

    async def hold(self) -> None:
        """Keep a database connection busy for the length of the job."""
        connection = await asyncpg.connect(self.place.url, timeout=5)
        try:
            await connection.execute(f"select pg_sleep({self.job.seconds})", timeout=self.job.seconds + 60)
        finally:
            await connection.close()

    async def call(self) -> None:
        """Call the dependency."""
        if self.place.away.exists():
            raise ConnectionError("the dependency is away")

    async def sleep(self, seconds: float) -> None:
        """Work for so long."""
        await asyncio.sleep(seconds)


async def perform(run: Run) -> None:
    """The handler of every system."""
    place, job = run.place, run.job
    place.note("begin", job.n)
    match job.kind:
        case "work" | "tick":
            await run.sleep(job.seconds)
        case "poison":
            await asyncio.sleep(job.seconds)
            die()
        case "call":
            await run.call()
        case "hold":
            await run.hold()
        case "long":
            for _ in range(int(job.seconds / TICK)):
                place.note("alive", job.n)
                await run.sleep(TICK)
    await run.effect()
    run.crash()


def die() -> None:
    """As by the kernel when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def numbered(numbers: Iterable[int], kind: str = "work", seconds: float = 0.0) -> list[Job]:
    return [Job(n, kind, seconds) for n in numbers]
