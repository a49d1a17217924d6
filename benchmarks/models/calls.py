"""Two hundred calls in flight from one worker, to a model that takes half a second: what does the queue cost?

The server answers after its time, however many ask, so that its best throughput is what a bare client gets that always has as
many calls under way and does nothing else. The server itself notes when each call was answered; what counts is the middle of
the run, after the level has grown and before the queue runs dry. Each request of Penstock is a job with a result that is kept.
The worker has a pool of two connections; how many it has at the server is looked at all the time.
"""

import asyncio
import shutil
import sys
from pathlib import Path

import asyncpg
import psutil

from benchmarks.documents.product import TIMEOUT, Installed
from benchmarks.models.server import ModelServer, model_server
from benchmarks.report import Row, ratio
from benchmarks.stage import ROOT, SideFailed, Stage
from penstock.product import Product
from penstock.settings import DatabaseUrl

IN_FLIGHT = 200
SECONDS = 0.5
POOL = 2
CONNECTIONS = 5
WARM, COUNTED, REST = (
    1_000,
    4_000,
    400,
)  # requests: until the level has grown, those that count, until the queue is empty
PROMPT = "Who pays for the weir? " + "The mill and the parish have agreed on the tenth of May. " * 40
LOOK_EVERY = 0.2


async def measure(stage: Stage) -> list[Row]:
    bare = Row("calls", f"bare aiohttp client, {IN_FLIGHT} in flight", "1/s", [])
    ours = Row("calls", "Penstock, one worker", "1/s", [])
    flight = Row("calls", "in flight at most", "calls", [])
    connections = Row("calls", "database connections of the worker, at most", "connections", [])
    whole = Row("calls", "from the first call to the last, with the growing of the level", "1/s", [])
    busy = Row("calls", "processor time of the worker, per call", "ms", [])
    async with model_server(SECONDS) as server:
        for _ in range(stage.scale.rounds):
            bare.values.append(await _bare(server))
            run = await _penstock(stage, server)
            for row, value in zip((ours, flight, connections, whole, busy), run, strict=True):
                row.values.append(value)
    faster = ratio("calls", "bare / Penstock", bare, ours)
    overhead = Row("calls", "overhead", "%", [100 * (each - 1) for each in faster.values])
    overhead.headline = 100 * (faster.median - 1)
    return [
        bare,
        ours,
        overhead.judged("≤ 10", lambda value: value <= 10),
        flight.judged(f"{IN_FLIGHT}", lambda value: value == IN_FLIGHT),
        connections.judged(f"≤ {CONNECTIONS}", lambda value: value <= CONNECTIONS),
        whole,
        busy,
    ]


async def _bare(server: ModelServer) -> float:
    """As many at once, in a process of its own, and nothing kept."""
    await server.begin()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.models.bare", server.url, str(WARM + COUNTED + REST), str(IN_FLIGHT)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        await process.communicate(PROMPT.encode())
    return _rate((await server.counts())["answered"])


def _rate(answered: list[float]) -> float:
    """Of those in the middle."""
    if len(answered) < WARM + COUNTED:
        raise SideFailed(f"only {len(answered)} calls were answered")
    return COUNTED / (answered[WARM + COUNTED - 1] - answered[WARM - 1])


async def _penstock(stage: Stage, server: ModelServer) -> tuple[float, float, float, float, float]:
    home = stage.home / "calls"
    url = await stage.empty_database("calls")
    llm = {"url": server.url, "model": "slow", "permits": IN_FLIGHT}
    chosen = {f"PENSTOCK_LLMS__MAIN__{name.upper()}": str(value) for name, value in llm.items()}
    installed = Installed(url, home, PENSTOCK_POOL__SIZE=str(POOL), PENSTOCK_LOG__LEVEL="warning", **chosen)
    await installed.command("status")
    total = WARM + COUNTED + REST
    await _ask(url, home, llm, total)
    await server.begin()
    observer = await asyncpg.connect(url)
    most = 0
    async with installed.running("worker") as worker, asyncio.timeout(TIMEOUT):
        process = psutil.Process(worker.pid)
        busy_before = 0.0
        while (done := await observer.fetchval("select count(*) from penstock.job_history")) < total:
            most = max(most, await _connections(observer, worker.pid))
            busy_before = busy_before or (done and sum(process.cpu_times()[:2]))
            await asyncio.sleep(LOOK_EVERY)
        busy = sum(process.cpu_times()[:2]) - busy_before
    wrong = await observer.fetchval("select count(*) from penstock.jobs where failures > 0 or state = 'dead'")
    await observer.close()
    counts = await server.counts()
    if wrong or len(counts["answered"]) != total:
        raise SideFailed(f"{wrong} requests failed, and {len(counts['answered'])} of {total} calls were answered")
    answered = counts["answered"]
    shutil.rmtree(home)
    await stage.drop(url)
    whole = total / (answered[-1] - answered[0] + SECONDS)
    return _rate(answered), counts["most"], most, whole, 1000 * busy / total


async def _ask(url: str, home: Path, llm: dict[str, object], count: int) -> None:
    async with Product(
        role="bench", database_url=DatabaseUrl(url), home=home, pool={"size": 2}, llms={"main": llm}
    ) as product:
        await product.app.enqueue_many([product.llm.call(PROMPT) for _ in range(count)])


async def _connections(observer: asyncpg.Connection, pid: int) -> int:
    """Those that name this process."""
    query = "select count(*) from pg_stat_activity where datname = current_database() and application_name like $1"
    found: int = await observer.fetchval(query, f"%:{pid}")
    return found
