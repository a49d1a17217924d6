"""A small application whose jobs are slow, rude or deadly, and a worker for it.

`python -m tests.scenarios.workshop` works in the database that the environment names, with the signals of every
Penstock command. What a handler does is seen in two tables of the test's own: `begun` gets a row at each start, at
once, and `effects` one in the transaction that finishes the job.
"""

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Sequence

from penstock import Context, Penstock, Permanent
from penstock.cli.running import Stop, run_until_stopped

TABLES = """
create table begun (job bigint not null, attempt int not null, pid int not null, at timestamptz default clock_timestamp());
create table effects (job bigint not null, attempt int not null, at timestamptz default clock_timestamp());
"""

app = Penstock(role="workshop")


async def begin(ctx: Context) -> None:
    async with app.transaction() as tx:
        await tx.execute(
            "insert into begun (job, attempt, pid) values ($1, $2, $3)", ctx.job.id, ctx.attempt, os.getpid()
        )


async def end(ctx: Context) -> None:
    async with ctx.finish() as tx:
        await tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job.id, ctx.attempt)


async def wait_stubbornly(seconds: float) -> None:
    """Go on through every cancellation."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            await asyncio.sleep(max(0.0, until - time.monotonic()))
        except asyncio.CancelledError:
            continue


@app.job()
async def make(ctx: Context, seconds: float = 0.0) -> None:
    """Take some time, then have an effect."""
    await begin(ctx)
    await asyncio.sleep(seconds)
    await end(ctx)


@app.job()
async def make_quickly_again(ctx: Context, seconds: float) -> None:
    """Slow in the first attempt only."""
    await begin(ctx)
    if ctx.attempt == 1:
        await asyncio.sleep(seconds)
    await end(ctx)


@app.job()
async def finish_only(ctx: Context) -> None:
    """Nothing but the effect."""
    await end(ctx)


@app.job()
async def idle(ctx: Context, seconds: float = 0.0) -> float:
    """No effect of its own: settled by group commit."""
    await asyncio.sleep(seconds)
    return seconds


@app.job()
async def block(ctx: Context, seconds: float) -> None:
    """Block the whole event loop, in the first attempt only."""
    await begin(ctx)
    if ctx.attempt == 1:
        time.sleep(seconds)  # noqa: ASYNC251  the point
    await end(ctx)


@app.job()
async def persist(ctx: Context, seconds: float) -> None:
    """Ignore every cancellation, then try to have an effect all the same."""
    await begin(ctx)
    await wait_stubbornly(seconds)
    await end(ctx)


@app.job(timeout="1s", retries=0)
async def persist_too_long(ctx: Context, seconds: float) -> None:
    """The same, beyond its timeout."""
    await begin(ctx)
    await wait_stubbornly(seconds)
    await end(ctx)


@app.job()
async def drink_poison(ctx: Context) -> None:
    """Kill the worker."""
    await begin(ctx)
    os.kill(os.getpid(), signal.SIGKILL)


@app.job(timeout="500ms", retries=1)
async def take_too_long(ctx: Context) -> None:
    await begin(ctx)
    await asyncio.sleep(60)


@app.job(stall_after="500ms", retries=0)
async def stall(ctx: Context, steps: int) -> None:
    """Report progress for a while, and then no more."""
    await begin(ctx)
    for step in range(steps):
        await ctx.progress(step, steps)
        await asyncio.sleep(0.2)
    await asyncio.sleep(60)


@app.job(queue="refused")
async def refuse(ctx: Context) -> None:
    raise Permanent("No.")


async def work(stop: Stop, concurrency: int, lease: str, drain: str) -> int:
    async with app:
        await app.work(concurrency=concurrency, stop=stop.requested, lease=lease, drain=drain)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--concurrency", type=int, default=10)
    options.add_argument("--lease", default="15s")
    options.add_argument("--drain", default="20s")
    options.add_argument("--kinds", nargs="*", help="serve only these")
    chosen = options.parse_args(arguments)
    for kind in set(app.kinds) - set(chosen.kinds or app.kinds):
        del app.kinds[kind]
    return run_until_stopped(app.settings, lambda stop: work(stop, chosen.concurrency, chosen.lease, chosen.drain))


if __name__ == "__main__":
    raise SystemExit(main())
