"""PgQueuer with asyncpg, run by its own supervisor (`pgqueuer.run`, as `pgq run`). Its heartbeat timeout stays at 30 s."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pgqueuer
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.executors import DatabaseRetryEntrypointExecutor
from pgqueuer.models import Context
from pgqueuer.queries import Queries

from benchmarks.gauntlet.jobs import Job, Place, Run, die, perform
from benchmarks.gauntlet.systems import EVERY, System

ATTEMPTS = 8  # of an exponential backoff from 1 s: past a minute


class TunedAttempt(Run):
    """With the pool that the worker and its handlers share through `resources`."""

    def __init__(self, place: Place, job: Job, pool: Any) -> None:
        super().__init__(place, job)
        self.pool = pool

    async def hold(self) -> None:
        async with self.pool.acquire() as connection:
            await connection.execute(f"select pg_sleep({self.job.seconds})")


class Side(System):
    label = "PgQueuer"
    packages = ("pgqueuer",)
    recommended = (
        "`restart_on_failure`, `shutdown_on_listener_failure`, `DatabaseRetryEntrypointExecutor`, `on_failure='hold'`, "
        "`ctx.cancellation`, enqueue on the connection of the transaction"
    )
    alive = "select count(*) from pgqueuer where status in ('queued', 'picked')"

    async def install(self) -> None:
        await super().install()
        connection = await asyncpg.connect(self.place.url)
        queries: Any = Queries(AsyncpgDriver(connection))
        await queries.install()
        await connection.close()

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        connection = await asyncpg.connect(self.place.url)
        ids = await self._enqueue(connection, jobs)
        await connection.close()
        return ids

    async def _enqueue(self, connection: Any, jobs: list[Job]) -> list[Any]:
        queries: Any = Queries(AsyncpgDriver(connection))
        payloads = [job.as_json().encode() for job in jobs]
        return list(await queries.enqueue(["job"] * len(jobs), payloads, [0] * len(jobs)))

    async def order(self, n: int, roll_back: bool, crash: bool) -> None:
        if not self.tuned:
            await super().order(n, roll_back, crash)
            return
        connection = await asyncpg.connect(self.place.url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("insert into orders values ($1)", n)
        await self._enqueue(connection, [Job(n)])
        await (transaction.rollback() if roll_back else transaction.commit())
        if crash:
            die()
        await connection.close()

    async def work(self, name: str, slots: int, schedule: bool) -> None:
        logging.getLogger("pgqueuer").setLevel(logging.WARNING)

        @asynccontextmanager
        async def factory() -> AsyncIterator[Any]:
            manager = await self._tuned_manager() if self.tuned else await self._manager()
            if schedule:

                @manager.schedule("tick", f"* * * * * */{EVERY}")  # type: ignore[untyped-decorator]
                async def tick(_schedule: Any) -> None:
                    await perform(Run(self.place, Job(0, "tick")))

            self.place.note("up")
            yield manager

        limits = {"batch_size": max(1, slots // 2), "max_concurrent_tasks": slots}
        safety = {"restart_on_failure": True, "shutdown_on_listener_failure": True} if self.tuned else {}
        await pgqueuer.run(factory, **limits, **safety)

    async def _manager(self) -> Any:
        manager: Any = PgQueuer.from_asyncpg_connection(await asyncpg.connect(self.place.url))

        @manager.entrypoint("job")  # type: ignore[untyped-decorator]
        async def job(job: Any) -> None:
            await perform(Run(self.place, Job.read(job.payload)))

        return manager

    async def _tuned_manager(self) -> Any:
        pool = await asyncpg.create_pool(self.place.url)
        manager: Any = PgQueuer.from_asyncpg_pool(pool, resources={"pool": pool})

        def retrying(parameters: Any) -> Any:
            return DatabaseRetryEntrypointExecutor(parameters, max_attempts=ATTEMPTS)

        @manager.entrypoint("job", on_failure="hold", executor_factory=retrying)  # type: ignore[untyped-decorator]
        async def job(job: Any, context: Context) -> None:
            with context.cancellation:
                await perform(TunedAttempt(self.place, Job.read(job.payload), context.resources["pool"]))

        return manager

    async def cancel(self, ids: list[Any]) -> None:
        connection = await asyncpg.connect(self.place.url)
        queries: Any = Queries(AsyncpgDriver(connection))
        await queries.mark_job_as_cancelled(ids)
        await connection.close()
