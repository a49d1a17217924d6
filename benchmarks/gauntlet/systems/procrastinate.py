"""Procrastinate with psycopg. Recommended: its guide for stalled jobs, run every 10 s, and its retry strategy."""

import logging
from typing import Any

import procrastinate
import psycopg

from benchmarks.gauntlet.jobs import Job, Place, Run, die, perform
from benchmarks.gauntlet.systems import EVERY, System


class Attempt(Run):
    """With the pool of the application."""

    def __init__(self, place: Place, job: Job, app: Any) -> None:
        super().__init__(place, job)
        self.app = app

    async def hold(self) -> None:
        async with self.app.connector.pool.connection() as connection:
            await connection.execute(f"select pg_sleep({self.job.seconds})")


class Side(System):
    label = "Procrastinate"
    packages = ("procrastinate", "psycopg")
    recommended = (
        "a periodic task that retries stalled jobs, `RetryStrategy(exponential_wait=2)`, `shutdown_graceful_timeout`, "
        "`abort=True`, a pool of 20, `defer` on the connection of the transaction"
    )
    alive = "select count(*) from procrastinate_jobs where status in ('todo', 'doing') and task_name = 'job'"

    def __init__(self, place: Place, tuned: bool) -> None:
        super().__init__(place, tuned)
        pool = {"max_size": 20} if tuned else {}
        self.app: Any = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=place.url, **pool))
        retry = {"retry": procrastinate.RetryStrategy(max_attempts=8, exponential_wait=2)} if tuned else {}
        self.job = self.app.task(name="job", **retry)(self._job)

    async def _job(self, job: dict[str, Any]) -> None:
        await perform(Attempt(self.place, Job.read(job), self.app))

    async def install(self) -> None:
        await super().install()
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        async with self.app.open_async():
            return list(await self.job.batch_defer_async(*({"job": job.as_dict()} for job in jobs)))

    async def order(self, n: int, roll_back: bool, crash: bool) -> None:
        if not self.tuned:
            await super().order(n, roll_back, crash)
            return
        async with self.app.open_async(), await psycopg.AsyncConnection.connect(self.place.url) as connection:
            await connection.execute("insert into orders values (%s)", (n,))
            await self.job.configure(connection=connection).defer_async(job=Job(n).as_dict())
            await (connection.rollback() if roll_back else connection.commit())
            if crash:
                die()

    async def work(self, name: str, slots: int, schedule: bool) -> None:
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        if schedule:

            @self.app.periodic(cron=f"* * * * * */{EVERY}")  # type: ignore[untyped-decorator]
            @self.app.task(name="tick")  # type: ignore[untyped-decorator]
            async def tick(timestamp: int) -> None:
                await perform(Attempt(self.place, Job(0, "tick"), self.app))

        if self.tuned:

            @self.app.periodic(cron="* * * * * */10")  # type: ignore[untyped-decorator]
            @self.app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)  # type: ignore[untyped-decorator]
            async def retry_stalled(context: Any, timestamp: int) -> None:
                for stalled in await self.app.job_manager.get_stalled_jobs():
                    await self.app.job_manager.retry_job(stalled)

        patience = {"shutdown_graceful_timeout": 4} if self.tuned else {}
        async with self.app.open_async():
            self.place.note("up")
            await self.app.run_worker_async(concurrency=slots, name=name, **patience)

    async def cancel(self, ids: list[Any]) -> None:
        async with self.app.open_async():
            for each in ids:
                await self.app.job_manager.cancel_job_by_id_async(each, abort=self.tuned)
