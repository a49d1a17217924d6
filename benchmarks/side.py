"""One measured process: `python -m benchmarks.side SYSTEM ACTION URL POSTMASTER OPTIONS`. Answers are lines of JSON.

Jobs count when they are settled: after the handlers have been entered, the database is asked until it has the outcomes.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import uvloop

from benchmarks.cost import Mark, clock, cpu_of
from benchmarks.systems import System, system

POLL = 0.003
OBSERVER = "bench-observer"


# Whatever a library prints goes to the log.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def say(**values: Any) -> None:
    answers.write(json.dumps(values) + "\n")


async def install(side: System, _observer: Any, _options: dict[str, Any]) -> None:
    await side.install()
    say()


async def enqueue(side: System, observer: Any, options: dict[str, Any]) -> None:
    """Many at once; with `few`, also one after the other, and thrice as many by a hundred coroutines."""
    await side.open()
    if options.get("warm", True):
        await side.enqueue_bulk(10)
        await observer.execute(side.empty)
    began = clock()
    await side.enqueue_bulk(options["count"], options.get("kind", "noop"))
    rates = {"bulk": options["count"] / (clock() - began)}
    if few := options.get("few"):
        rates["one"] = await _single(side, few, coroutines=1)
        rates["hundred"] = await _single(side, 3 * few, coroutines=100)
    say(**rates)


async def _single(side: System, count: int, coroutines: int) -> float:
    numbers = iter(range(count))

    async def enqueue_each() -> None:
        for number in numbers:
            await side.enqueue_one(number)

    began = clock()
    await asyncio.gather(*(enqueue_each() for _ in range(coroutines)))
    return count / (clock() - began)


async def drain(side: System, observer: Any, options: dict[str, Any]) -> None:
    """From the first handler until `count` jobs are settled; with more in the queue, those that were settled by then."""
    postmaster, count = options["postmaster"], options["count"]
    await side.open()
    before = await observer.fetchval(side.settled)
    start = await Mark.take(observer, postmaster)
    entered = 0
    enough = asyncio.Event()

    def note(_number: int, _attempt: int) -> None:
        nonlocal entered, start
        entered += 1
        if entered == 1:
            start = start.moved()
        elif entered == count:
            enough.set()

    side.entered = note
    working = asyncio.create_task(side.work(options.get("concurrency", 100)))
    await _or_failure(asyncio.create_task(enough.wait()), working)
    say(
        settled=await _until_settled(side, observer, before + count) - before,
        **start.until(await Mark.take(observer, postmaster)),
    )
    await _stop(working)


async def work(side: System, _observer: Any, options: dict[str, Any]) -> None:
    """Tell of each handler when it was entered, until killed."""
    side.entered = lambda number, attempt: say(number=number, attempt=attempt, at=clock())
    await side.open()
    working = asyncio.create_task(side.work(options.get("concurrency", 100)))
    say(working=True)
    await working


async def send(side: System, _observer: Any, options: dict[str, Any]) -> None:
    """Single enqueues with pauses: each with the time just before its COMMIT. Negative numbers are for warming up."""
    await side.open()
    for number in range(-5, options["count"]):
        say(number=number, at=await side.enqueue_stamped(number))
        await asyncio.sleep(options["pause"])


async def asleep(side: System, observer: Any, options: dict[str, Any]) -> None:
    """The connections of this process while so many handlers sleep."""
    entered = 0
    all_in = asyncio.Event()

    def note(_number: int, _attempt: int) -> None:
        nonlocal entered
        entered += 1
        if entered == options["count"]:
            all_in.set()

    side.entered = note
    await side.open()
    await side.enqueue_bulk(options["count"], "sleep")
    asyncio.get_running_loop().call_later(60, all_in.set)
    working = asyncio.create_task(side.work(options["count"]))
    await _or_failure(asyncio.create_task(all_in.wait()), working)
    await asyncio.sleep(2)  # a heartbeat, and what was opened for a moment is closed
    rows = await observer.fetch(
        "select application_name from pg_stat_activity where datname = current_database() and application_name <> $1",
        OBSERVER,
    )
    say(entered=entered, connections=len(rows), names=sorted(row[0] for row in rows))


async def idle(side: System, observer: Any, options: dict[str, Any]) -> None:
    """The CPU of a worker without work and of its backends, as a part of one core."""
    await side.open()
    working = asyncio.create_task(side.work(100))
    await asyncio.sleep(3)

    async def cpus() -> tuple[float, float]:
        rows = await observer.fetch(
            "select pid from pg_stat_activity where datname = current_database() and application_name <> $1", OBSERVER
        )
        return cpu_of(os.getpid()), sum(cpu_of(row["pid"]) for row in rows)

    own, backends = await cpus()
    began = time.monotonic()
    await _or_failure(asyncio.create_task(asyncio.sleep(options["seconds"])), working)
    took = time.monotonic() - began
    own_after, backends_after = await cpus()
    say(worker=(own_after - own) / took, backends=(backends_after - backends) / took)


async def flow(side: System, observer: Any, options: dict[str, Any]) -> None:
    """Seconds that a job of this kind tells of itself; by Penstock alone, so it is no action of `System`."""
    penstock: Any = side
    await side.open()
    working = asyncio.create_task(side.work(100))
    await penstock.ask(options["kind"], 10)
    start = await Mark.take(observer, options["postmaster"])
    seconds = await penstock.ask(options["kind"], options["count"])
    say(inside=seconds, **start.until(await Mark.take(observer, options["postmaster"])))
    await _stop(working)


ACTIONS: dict[str, Callable[[System, Any, dict[str, Any]], Awaitable[None]]] = {
    action.__name__: action for action in (install, enqueue, drain, work, send, asleep, idle, flow)
}


async def _until_settled(side: System, observer: Any, wanted: int) -> int:
    while (settled := int(await observer.fetchval(side.settled))) < wanted:  # noqa: ASYNC110  another process settles
        await asyncio.sleep(POLL)
    return settled


async def _or_failure(wanted: "asyncio.Task[Any]", working: "asyncio.Task[None]") -> None:
    """Wait, but not for a worker that has failed. One that ends because there is no more work is fine."""
    await asyncio.wait([wanted, working], return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
        await wanted


async def _stop(working: "asyncio.Task[None]") -> None:
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError, TimeoutError, Exception):
        async with asyncio.timeout(5):
            await working


async def main() -> None:
    name, action, url, postmaster, options = sys.argv[1:]
    observer = await asyncpg.connect(url, server_settings={"application_name": OBSERVER})
    await ACTIONS[action](system(name, url), observer, json.loads(options) | {"postmaster": int(postmaster)})
    os._exit(0)  # sleeping handlers and open pools need no farewell


if __name__ == "__main__":
    uvloop.run(main())
