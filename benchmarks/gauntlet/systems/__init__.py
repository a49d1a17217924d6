"""The systems that run the gauntlet, one module for each: how jobs get in, and how one worker process runs them."""

import importlib
from abc import ABC, abstractmethod
from typing import Any

import asyncpg

from benchmarks.gauntlet.jobs import TABLES, Job, Place, die

NAMES = ("penstock", "pgqueuer", "procrastinate", "dbos", "absurd", "celery")
EVERY = 10  # seconds between two ticks of the schedule


class System(ABC):
    """One system, opened in a process of its own; `tuned` is with its recommended settings."""

    label: str
    packages: tuple[str, ...]
    recommended: str  # the settings and the way of writing handlers that its documentation recommends
    alive = ""  # SQL: how many jobs it still regards as queued or running
    missing: dict[str, str] = {}  # noqa: RUF012  scenarios that it does not offer: why

    def __init__(self, place: Place, tuned: bool) -> None:
        self.place = place
        self.tuned = tuned

    async def install(self) -> None:
        """Make the schema in an empty database."""
        connection = await asyncpg.connect(self.place.url)
        await connection.execute(TABLES)
        await connection.close()

    async def count_alive(self, connection: Any) -> int:
        return int(await connection.fetchval(self.alive))

    @abstractmethod
    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        """Their ids."""

    @abstractmethod
    async def work(self, name: str, slots: int, schedule: bool) -> None:
        """Work as the worker of that name until SIGTERM, so many jobs at once; with `schedule`, a tick every 10 s."""

    @abstractmethod
    async def cancel(self, ids: list[Any]) -> None: ...

    async def order(self, n: int, roll_back: bool, crash: bool) -> None:
        """Write an order and enqueue its job; crash right after the commit of the order. Here: the job follows the commit."""
        connection = await asyncpg.connect(self.place.url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("insert into orders values ($1)", n)
        if roll_back:
            await transaction.rollback()
        else:
            await transaction.commit()
            if crash:
                die()
            await self.enqueue([Job(n)])
        await connection.close()


def load(name: str) -> type[System]:
    """The side of that name; imported here, because each process needs only one."""
    side: type[System] = importlib.import_module(f"benchmarks.gauntlet.systems.{name}").Side
    return side
