"""Penstock's engine. Recommended is what docs/jobs.md and docs/limits.md show; the lease stays at its default of 15 s."""

import asyncio
import signal
from contextlib import suppress
from typing import Any

from benchmarks.gauntlet.jobs import Job, Place, Run, die, perform
from benchmarks.gauntlet.systems import EVERY, System
from penstock import Context, Penstock, Unavailable


class RolledBack(Exception):
    """The order is not wanted after all."""


class Attempt(Run):
    """With what the defaults offer: the pool of the application."""

    def __init__(self, place: Place, job: Job, app: Penstock, ctx: Context) -> None:
        super().__init__(place, job)
        self.app = app
        self.ctx = ctx

    async def hold(self) -> None:
        async with self.app.transaction() as tx:
            await tx.execute(f"select pg_sleep({self.job.seconds})")


class TunedAttempt(Attempt):
    async def effect(self) -> None:
        async with self.ctx.finish() as tx:
            await tx.execute(self.insert)

    async def call(self) -> None:
        async with self.ctx.limit("dependency"):
            try:
                await super().call()
            except ConnectionError as error:
                raise Unavailable(str(error)) from error


class Side(System):
    label = "Penstock"
    packages = ("penstock",)
    recommended = "`ctx.finish`, `ctx.limit` with `Unavailable`, `enqueue(tx=…)`, `pool.call_timeout` 2 min"
    alive = "select count(*) from penstock.jobs where state <> 'dead'"

    def __init__(self, place: Place, tuned: bool) -> None:
        super().__init__(place, tuned)
        self.app = Penstock(database_url=place.url, **({"pool__call_timeout": "2m"} if tuned else {}))
        self.app.limit("dependency", 8)
        self.job = self.app.job(name="job")(self._job)

    async def _job(self, ctx: Context, job: dict[str, Any]) -> None:
        attempt = TunedAttempt if self.tuned else Attempt
        await perform(attempt(self.place, Job.read(job), self.app, ctx))

    async def install(self) -> None:
        await super().install()
        async with self.app:
            pass

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        async with self.app:
            return list(await self.app.enqueue_many([self.job(job=job.as_dict()) for job in jobs]))

    async def order(self, n: int, roll_back: bool, crash: bool) -> None:
        if not self.tuned:
            await super().order(n, roll_back, crash)
            return
        async with self.app:
            with suppress(RolledBack):
                async with self.app.transaction() as tx:
                    await tx.execute("insert into orders values ($1)", n)
                    await self.app.enqueue(self.job(job=Job(n).as_dict()), tx=tx)
                    if roll_back:
                        raise RolledBack
            if crash:
                die()

    async def work(self, name: str, slots: int, schedule: bool) -> None:
        if schedule:
            self.app.schedule("tick", f"every {EVERY}s", self.job(job=Job(0, "tick").as_dict()))
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with self.app:
            self.place.note("up")
            await self.app.work(concurrency=slots, stop=stop)

    async def cancel(self, ids: list[Any]) -> None:
        async with self.app:
            await self.app.cancel(*ids)
