"""PgQueuer with its asyncpg driver, which its documentation recommends for speed, and full durability, its default.

The batch size is the one that drained fastest here: 10 (its default), 50, 100, 200, 500 and 1,000 were tried.
"""

import asyncio
import logging
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.cost import clock
from benchmarks.systems import System

BATCH = 200


class Side(System):
    settled = "select count(*) from pgqueuer_log where status = 'successful'"
    empty = "truncate pgqueuer, pgqueuer_log"
    vacuum = "pgqueuer"

    async def install(self) -> None:
        await self.open()
        await self.queries.install()

    async def open(self) -> None:
        logging.disable(logging.WARNING)
        self.connection = await asyncpg.connect(self.url)
        self.queries: Any = Queries(AsyncpgDriver(self.connection))

    async def enqueue_bulk(self, count: int, kind: str = "noop") -> None:
        await self.queries.enqueue([kind] * count, [b"%d" % n for n in range(count)], [0] * count)

    async def enqueue_one(self, number: int) -> None:
        await self.queries.enqueue("noop", b"%d" % number, 0)

    async def enqueue_stamped(self, number: int) -> float:
        async with self.connection.transaction():
            await self.enqueue_one(number)
            return clock()

    async def _noop(self, job: Any) -> None:
        self.entered(int(job.payload), 1)

    async def _sleep(self, job: Any) -> None:
        self.entered(int(job.payload), 1)
        await asyncio.sleep(3600)

    async def work(self, concurrency: int) -> None:
        worker: Any = PgQueuer.from_asyncpg_connection(self.connection)
        worker.entrypoint("noop")(self._noop)
        worker.entrypoint("sleep")(self._sleep)
        await worker.run(batch_size=min(BATCH, concurrency))
