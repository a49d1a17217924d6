"""How soon a worker finds the capacity of a server that does not tell it, and how soon it follows when that is halved.

The server bears so many calls at once, 50 ms each, and refuses all others at once with 429. The worker has a limit with ten
times as many permits. The best throughput is that of as many plain callers as the server bears; a second counts when the
second that ends with it had 80 % of that.

    python -m benchmarks.measures.limiter
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from benchmarks.cost import clock
from benchmarks.report import Report, Row
from benchmarks.stage import Scale, Stage, open_stage
from penstock import Context, Penstock, RateLimited
from penstock.settings import LogSettings
from penstock.telemetry import configure_logging

CAPACITY = 20
SERVICE = 0.05  # seconds
PHASE = 30.0  # seconds
WINDOW = 1.0
AFTERWARDS = 8.0
ENOUGH = 0.8


class Server:
    """Counts what it has served, and when."""

    def __init__(self) -> None:
        self.capacity = CAPACITY
        self.inside = 0
        self.served: list[float] = []
        self.refused = 0

    async def answer(self, _request: web.Request) -> web.Response:
        if self.inside >= self.capacity:
            self.refused += 1
            return web.Response(status=429)
        self.inside += 1
        await asyncio.sleep(SERVICE)
        self.inside -= 1
        self.served.append(clock())
        return web.Response()


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[str]:
    site = web.Application()
    site.router.add_get("/", server.answer)
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def measure(stage: Stage) -> list[Row]:
    names = ("from slow start", "after the capacity was halved")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    parts: dict[str, list[float]] = {name: [] for name in names}
    refused: list[float] = []
    configure_logging(LogSettings(level="error"))  # each refusal is a line
    for _ in range(min(stage.scale.rounds, 3)):
        arena = await stage.database("penstock")
        server = Server()
        async with serving(server) as address:
            best = [await _best(server, address, capacity) for capacity in (CAPACITY, CAPACITY // 2)]
            async with calling(arena.url, address):
                for name, rate in zip(names, best, strict=True):
                    settled, part = await _settle(server, rate)
                    seconds[name].append(settled)
                    parts[name].append(part)
                    server.capacity = CAPACITY // 2
        refused.append(100 * server.refused / (server.refused + len(server.served)))
    rows = [
        Row("limiter", f"80 % of the best throughput, {name}", "s", seconds[name]).judged(
            "≤ 30", lambda value: value <= 30
        )
        for name in names
    ]
    rows += [Row("limiter", f"part of the best throughput then, {name}", "×", parts[name]) for name in names]
    return [*rows, Row("limiter", "refused by the server", "%", refused)]


@asynccontextmanager
async def calling(url: str, address: str) -> AsyncIterator[None]:
    """A worker with more jobs than it can do; each of them is one call."""
    app = Penstock(database_url=url, pool={"size": 8})
    app.limit("service", 10 * CAPACITY)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        @app.job()
        async def call(ctx: Context) -> None:
            async with ctx.limit("service"), client.get(address) as answer:
                if answer.status == 429:
                    raise RateLimited("too many calls")

        async with app:
            await app.enqueue_many([call() for _ in range(int(2.5 * PHASE * CAPACITY / SERVICE))])
            working = asyncio.create_task(app.work(concurrency=100, drain="1s"))
            try:
                yield
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)


async def _best(server: Server, address: str, callers: int) -> float:
    """Calls per second of so many callers who know that there may be as many of them, and do nothing else."""
    until = clock() + WINDOW
    before = len(server.served)

    async def call_on(client: aiohttp.ClientSession) -> None:
        while clock() < until:
            async with client.get(address):
                pass

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        await asyncio.gather(*(call_on(client) for _ in range(callers)))
    return (len(server.served) - before) / WINDOW


async def _settle(server: Server, best: float) -> tuple[float, float]:
    """Seconds until the first window that was good enough, and the part of the best throughput in the seconds after it."""
    began = clock()
    await asyncio.sleep(WINDOW)
    while (_served_since(server, clock() - WINDOW) < ENOUGH * WINDOW * best) and clock() - began < PHASE:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    settled = clock()
    await asyncio.sleep(AFTERWARDS)
    return settled - began, _served_since(server, settled) / (clock() - settled) / best


def _served_since(server: Server, since: float) -> int:
    return len(server.served) - bisect_left(server.served, since)


async def main() -> None:
    async with open_stage(Scale.quick().with_rounds(2)) as stage:
        Report({}, {}, await measure(stage)).show()


if __name__ == "__main__":
    asyncio.run(main())
