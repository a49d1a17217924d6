"""Procrastinate with its psycopg connector and its default pool. Of 1, 10, 30 and 100 jobs at once, 30 drained fastest."""

import asyncio
import logging
from typing import Any

import procrastinate
import psycopg

from benchmarks.cost import clock
from benchmarks.systems import System

BEST = 30


class Side(System):
    settled = "select count(*) from procrastinate_jobs where status = 'succeeded'"
    empty = "truncate procrastinate_jobs cascade"
    vacuum = "procrastinate_jobs"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.app: Any = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
        self.sender: Any = None
        self.tasks = {
            "noop": self.app.task(name="noop")(self._noop),
            "sleep": self.app.task(name="sleep")(self._sleep),
        }

    async def _noop(self, n: int) -> None:
        self.entered(n, 1)

    async def _sleep(self, n: int) -> None:
        self.entered(n, 1)
        await asyncio.sleep(3600)

    async def install(self) -> None:
        await self.open()
        await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        logging.disable(logging.WARNING)
        await self.app.open_async()

    async def enqueue_bulk(self, count: int, kind: str = "noop") -> None:
        await self.tasks[kind].batch_defer_async(*({"n": n} for n in range(count)))

    async def enqueue_one(self, number: int) -> None:
        await self.tasks["noop"].defer_async(n=number)

    async def enqueue_stamped(self, number: int) -> float:
        if self.sender is None:
            self.sender = await psycopg.AsyncConnection.connect(self.url)
        await self.tasks["noop"].configure(connection=self.sender).defer_async(n=number)
        stamp = clock()
        await self.sender.commit()
        return stamp

    async def work(self, concurrency: int) -> None:
        await self.app.run_worker_async(
            concurrency=BEST if concurrency == 100 else concurrency, install_signal_handlers=False
        )
