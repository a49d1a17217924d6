"""DBOS without its Conductor, which is a service of its own. Its queue runs workflows; the default is one plain step."""

import asyncio
import signal
from typing import Any

import sqlalchemy
from dbos import DBOS, AsyncSQLAlchemyDatasource, DBOSClient, run_dbos_database_migrations

from benchmarks.gauntlet.jobs import Job, Place, Run, die, perform
from benchmarks.gauntlet.systems import EVERY, System

OPTIONS = {"queue_name": "jobs", "workflow_name": "job"}


class TunedAttempt(Run):
    """Effects are transactions of a data source, calls are steps with retries, sleeps are durable."""

    def __init__(self, place: Place, job: Job, source: Any) -> None:
        super().__init__(place, job)
        self.source = source

    async def effect(self) -> None:
        @self.source.transaction  # type: ignore[untyped-decorator]
        async def write() -> None:
            await self.source.sql_session().execute(sqlalchemy.text(self.insert))

        await write()

    async def hold(self) -> None:
        async with self.source.engine.connect() as connection:
            await connection.execute(sqlalchemy.text(f"select pg_sleep({self.job.seconds})"))

    async def call(self) -> None:
        options = {"retries_allowed": True, "max_attempts": 8, "interval_seconds": 1.0, "backoff_rate": 2.0}
        await DBOS.run_step_async(options, super().call)

    async def sleep(self, seconds: float) -> None:
        await DBOS.sleep_async(seconds)


class Side(System):
    label = "DBOS"
    packages = ("dbos",)
    recommended = (
        "an `executor_id` for each worker, `max_recovery_attempts=3`, transactions of a data source, steps with retries, "
        "durable sleeps, `enqueue_in_transaction`; without Conductor"
    )
    alive = "select count(*) from dbos.workflow_status where status in ('PENDING', 'ENQUEUED') and name = 'job'"

    async def install(self) -> None:
        await super().install()
        await asyncio.to_thread(run_dbos_database_migrations, system_database_url=self.place.url)

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        client: Any = await asyncio.to_thread(DBOSClient, system_database_url=self.place.url)
        return [(await client.enqueue_async(OPTIONS, job.as_dict())).get_workflow_id() for job in jobs]

    async def order(self, n: int, roll_back: bool, crash: bool) -> None:
        if self.tuned:
            await asyncio.to_thread(self._order, n, roll_back, crash)
        else:
            await super().order(n, roll_back, crash)

    def _order(self, n: int, roll_back: bool, crash: bool) -> None:
        client: Any = DBOSClient(system_database_url=self.place.url)
        engine = sqlalchemy.create_engine(self.place.url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("insert into orders values (:n)"), {"n": n})
            client.enqueue_in_transaction(connection, OPTIONS, Job(n).as_dict())
            (connection.rollback if roll_back else connection.commit)()
            if crash:
                die()
        client.destroy()

    async def work(self, name: str, slots: int, schedule: bool) -> None:
        config: dict[str, Any] = {"name": "gauntlet", "system_database_url": self.place.url, "log_level": "WARNING"}
        source: Any = None
        if self.tuned:
            config["executor_id"] = name
            source = await AsyncSQLAlchemyDatasource.create(self.place.url)
            await source.engine.dispose()  # its connections belong to this loop; workflows run in another
        DBOS(config=config)

        @DBOS.step(name="perform")  # type: ignore[untyped-decorator]
        async def plain(job: dict[str, Any]) -> None:
            await perform(Run(self.place, Job.read(job)))

        @DBOS.workflow(name="job", **({"max_recovery_attempts": 3} if self.tuned else {}))  # type: ignore[untyped-decorator]
        async def workflow(job: dict[str, Any]) -> None:
            if self.tuned:
                await perform(TunedAttempt(self.place, Job.read(job), source))
            else:
                await plain(job)

        @DBOS.workflow(name="tick")  # type: ignore[untyped-decorator]
        async def tick(_at: Any, _context: Any) -> None:
            await workflow(Job(0, "tick").as_dict())

        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await asyncio.to_thread(DBOS.launch)
        await DBOS.register_queue_async("jobs", worker_concurrency=slots)
        if schedule:
            ticking = {"schedule_name": "tick", "workflow_fn": tick, "schedule": f"*/{EVERY} * * * * *"}
            await DBOS.apply_schedules_async([ticking])
        self.place.note("up")
        await stop.wait()
        await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=4 if self.tuned else 0)

    async def cancel(self, ids: list[Any]) -> None:
        client: Any = await asyncio.to_thread(DBOSClient, system_database_url=self.place.url)
        for each in ids:
            await client.cancel_workflow_async(each)
