"""Penstock, with its defaults; the size of the pool can be changed by its setting, PENSTOCK_POOL__SIZE."""

import asyncio
from typing import Any

from benchmarks.cost import clock
from benchmarks.systems import System
from penstock import Penstock

LANE = "insert into penstock.lanes (queue, kind, fairness_key) values ('default', $1, 'default') on conflict do nothing"


class Side(System):
    settled = "select count(*) from penstock.job_history"
    empty = "truncate penstock.jobs, penstock.job_history"
    fill = """
        insert into penstock.jobs (lane, args)
        select lane.id, json_build_object('n', n)
        from penstock.lanes as lane cross join generate_series(1, $1::int) as n
        where lane.kind = 'noop'
    """
    vacuum = "penstock.jobs"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.began = 0.0
        self.app = Penstock(database_url=url)
        self.kinds = {
            "noop": self.app.job(name="noop")(self._noop),
            "sleep": self.app.job(name="sleep")(self._sleep),
            "paused": self.app.job(name="paused")(self._noop),
            "fan": self.app.job(name="fan")(self._fan),
            "climb": self.app.job(name="climb")(self._climb),
        }

    async def _noop(self, ctx: Any, n: int) -> None:
        self.entered(n, ctx.attempt)

    async def _sleep(self, ctx: Any, n: int) -> None:
        self.entered(n, ctx.attempt)
        await asyncio.sleep(3600)

    async def _fan(self, ctx: Any, n: int) -> float:
        """A parent of n; both of its attempts are in this process."""
        if ctx.attempt == 1:
            self.began = clock()
        await ctx.map("all", [self.kinds["noop"](n=each) for each in range(n)])
        return clock() - self.began

    async def _climb(self, ctx: Any, n: int) -> float:
        """Seconds of n steps that do nothing but return."""

        async def rise(height: int) -> int:
            return height

        began = clock()
        for each in range(n):
            await ctx.step(f"step {each}", rise, each)
        return clock() - began

    async def ask(self, kind: str, count: int) -> float:
        """The result of one job."""
        return float(await self.app.result(await self.app.enqueue(self.kinds[kind](n=count)), timeout=120))

    async def install(self) -> None:
        async with self.app, self.app.transaction() as tx:
            for kind in self.kinds:
                await tx.execute(LANE, kind)

    async def open(self) -> None:
        await self.app.__aenter__()

    async def enqueue_bulk(self, count: int, kind: str = "noop") -> None:
        job = self.kinds[kind]
        await self.app.enqueue_many([job(n=n) for n in range(count)])

    async def enqueue_one(self, number: int) -> None:
        await self.app.enqueue(self.kinds["noop"](n=number))

    async def enqueue_stamped(self, number: int) -> float:
        async with self.app.transaction() as tx:
            await self.app.enqueue(self.kinds["noop"](n=number), tx=tx)
            return clock()

    async def work(self, concurrency: int) -> None:
        await self.app.work(concurrency=concurrency)
