"""Memos of a thousand conversations, with a model that takes two seconds: does anybody wait for a connection?

Each stream has three messages, of which the model makes a memo each. One worker makes all of them with its usual pool of eight
connections. The counters of its pool tell who found all of them taken, and how long they were held by anybody, for batches
and for all else; what is counted begins with the schedule's look for streams.
"""

import asyncio
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from benchmarks.cost import clock
from benchmarks.documents.product import TIMEOUT, Installed
from benchmarks.models.server import model_server
from benchmarks.report import Row
from benchmarks.stage import SideFailed, Stage
from penstock.memos import Message, post
from penstock.product import Product
from penstock.settings import DatabaseUrl

STREAMS, QUICK = 1_000, 200
SECONDS = 2.0
IN_FLIGHT = 200
POOL = 8
SAID = ("The sluice gate of mill {0} is made of oak.", "We repair it in week {0}.", "Please order {0} new bolts.")
DONE = """
select count(*) from penstock.job_history as job join penstock.lanes as lane on lane.id = job.lane
where lane.kind = 'memo.batch' and job.outcome = 'done'
"""


@dataclass(frozen=True)
class Counted:
    """A histogram of the pool: how many, their seconds, and how many took no longer than a bound."""

    count: int
    seconds: float
    up_to: dict[float, int]

    def since(self, before: "Counted") -> "Counted":
        up_to = {bound: number - before.up_to[bound] for bound, number in self.up_to.items()}
        return Counted(self.count - before.count, self.seconds - before.seconds, up_to)

    def longer_than(self, bound: float) -> int:
        return self.count - self.up_to[bound]

    @property
    def longest(self) -> float:
        """The smallest bound that none is above."""
        return min((bound for bound, number in self.up_to.items() if number == self.count), default=float("inf"))


@dataclass(frozen=True)
class Counters:
    """Of the pool of a worker."""

    crowded: int
    held: Counted


async def measure(stage: Stage) -> list[Row]:
    streams = STREAMS if stage.scale.rounds > 2 or stage.scale.chunks >= 100_000 else QUICK
    took = Row("memos", f"{streams:,} streams, {SECONDS:g} s of the model each", "s", [])
    waits = Row("memos", "uses that found all connections taken", "waits", [])
    holding = Row("memos", "time with a connection, per batch", "ms", [])
    longest = Row("memos", "longest hold, at most", "ms", [])
    async with model_server(SECONDS) as server:
        for _ in range(stage.scale.rounds):
            seconds, crowded, held = await _remember(stage, server.url, streams)
            took.values.append(seconds)
            waits.values.append(crowded)
            waits.note = f"of {held.count:,}"
            holding.values.append(1000 * held.seconds / streams)
            longest.values.append(1000 * held.longest)
            longest.note = f"{held.count:,} holds, {held.longer_than(0.1)} of them longer than 100 ms"
    return [
        took,
        waits.judged("0", lambda value: value == 0),
        holding.judged("≤ 100", lambda value: value <= 100),
        longest,
    ]


async def _remember(stage: Stage, model: str, streams: int) -> tuple[float, int, Counted]:
    home = stage.home / "memos"
    url = await stage.empty_database("memos")
    llm = {"url": model, "model": "slow", "permits": IN_FLIGHT}
    chosen = {f"PENSTOCK_LLMS__MAIN__{name.upper()}": str(value) for name, value in llm.items()}
    chosen |= {"PENSTOCK_POOL__SIZE": str(POOL), "PENSTOCK_MEMOS__CHECK_EVERY": "1d"}
    await Installed(url, home).command("status")
    installed = Installed(url, home, **chosen)
    observer = await asyncpg.connect(url)
    async with _client(url, home, llm) as product, installed.worker() as address, asyncio.timeout(TIMEOUT):
        await _say(product, streams)
        before = await _counters(address)
        began = clock()
        await product.app.enqueue(product.app.kinds["memo.batch-check"](), fairness_key="_system")
        while await observer.fetchval(DONE) < streams:  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.25)
        seconds = clock() - began
        after = await _counters(address)
    memos = await observer.fetchval("select count(*) from penstock.memos")
    await observer.close()
    shutil.rmtree(home)
    await stage.drop(url)
    if memos != streams * len(SAID):
        raise SideFailed(f"{memos} memos of {streams} streams")
    return seconds, after.crowded - before.crowded, after.held.since(before.held)


def _client(url: str, home: Path, llm: dict[str, Any]) -> Product:
    return Product(role="bench", database_url=DatabaseUrl(url), home=home, pool={"size": 2}, llms={"main": llm})


async def _say(product: Product, streams: int) -> None:
    for number in range(streams):
        messages = [Message(f"m{place}", text.format(number), "Ann") for place, text in enumerate(SAID)]
        async with product.app.database.pool.transaction() as tx:
            await post(tx, f"mill-{number}", messages, tenant="default", most=10**6)


async def _counters(address: str) -> Counters:
    async with aiohttp.ClientSession() as http, http.get(f"{address}/metrics") as answer:
        text = await answer.text()
    held = "penstock_pool_hold_seconds"
    buckets = re.findall(rf'^{held}_bucket{{le="([^"]+)"}} (\S+)', text, re.MULTILINE)
    single = dict(re.findall(r"^(penstock_pool_\w+) (\S+)", text, re.MULTILINE))
    up_to = {float(bound): int(float(number)) for bound, number in buckets}
    holds = Counted(int(float(single[f"{held}_count"])), float(single[f"{held}_sum"]), up_to)
    return Counters(int(float(single["penstock_pool_crowded_total"])), holds)
