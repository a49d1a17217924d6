"""Absurd (`absurd-sdk`), with the schema that its command `absurdctl` brings along. Its claims last 120 s by default."""

import asyncio
import signal
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from benchmarks.gauntlet.jobs import Job, Place, Run, die, perform
from benchmarks.gauntlet.systems import System

BACKOFF = {"kind": "exponential", "base_seconds": 1, "factor": 2}


class Attempt(Run):
    """The effect is a step."""

    def __init__(self, place: Place, job: Job, ctx: Any) -> None:
        super().__init__(place, job)
        self.ctx = ctx

    async def effect(self) -> None:
        await self.ctx.step("effect", super().effect)


class TunedAttempt(Attempt):
    """A heartbeat extends the claim, and notices that the task was cancelled."""

    async def sleep(self, seconds: float) -> None:
        while seconds > 0:
            await asyncio.sleep(min(seconds, 5))
            seconds -= 5
            await self.ctx.heartbeat()

    async def hold(self) -> None:
        working = asyncio.create_task(super().hold())
        while not (await asyncio.wait([working], timeout=5))[0]:
            await self.ctx.heartbeat()
        await working


class Side(System):
    label = "absurd"
    packages = ("absurd-sdk", "absurdctl")
    recommended = (
        "`claim_timeout=20` with `ctx.heartbeat`, exponential retries, `spawn` on the connection of the transaction"
    )
    alive = "select count(*) from absurd.t_default where state in ('pending', 'running', 'sleeping')"
    missing = {"duplicate-schedule": "no schedules"}  # noqa: RUF012

    async def install(self) -> None:
        await super().install()
        async with await psycopg.AsyncConnection.connect(self.place.url, autocommit=True) as connection:
            await connection.execute(BUNDLED_SCHEMA_SQL)
        client: Any = AsyncAbsurd(self.place.url)
        await client.create_queue("default")
        await client.close()

    @property
    def _retries(self) -> dict[str, Any]:
        return {"queue": "default"} | ({"max_attempts": 10, "retry_strategy": BACKOFF} if self.tuned else {})

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        client: Any = AsyncAbsurd(self.place.url)
        spawned = [await client.spawn("job", job.as_dict(), **self._retries) for job in jobs]
        await client.close()
        return [str(each["task_id"]) for each in spawned]

    async def order(self, n: int, roll_back: bool, crash: bool) -> None:
        if not self.tuned:
            await super().order(n, roll_back, crash)
            return
        async with await psycopg.AsyncConnection.connect(self.place.url) as connection:
            await connection.execute("insert into orders values (%s)", (n,))
            client: Any = AsyncAbsurd(connection)
            await client.spawn("job", Job(n).as_dict(), **self._retries)
            await (connection.rollback() if roll_back else connection.commit())
            if crash:
                die()

    async def work(self, name: str, slots: int, schedule: bool) -> None:
        client: Any = AsyncAbsurd(self.place.url)

        @client.register_task("job")  # type: ignore[untyped-decorator]
        async def job(params: dict[str, Any], ctx: Any) -> None:
            await perform((TunedAttempt if self.tuned else Attempt)(self.place, Job.read(params), ctx))

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, client.stop_worker)
        self.place.note("up")
        await client.start_worker(worker_id=name, concurrency=slots, **({"claim_timeout": 20} if self.tuned else {}))

    async def cancel(self, ids: list[Any]) -> None:
        client: Any = AsyncAbsurd(self.place.url)
        for each in ids:
            await client.cancel_task(each)
        await client.close()
