"""A small application whose jobs are slow, rude or deadly, and a worker that runs them.

`python -m tests.scenarios.sample_jobs` works in the database that the environment names, with the signals of every
Penstock command. What a handler does is seen in two tables of the test's own: `begun` gets a row at each start, at
once, and `effects` one in the transaction that finishes the job.
"""

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from penstock import Context, Penstock, Permanent
from penstock.cli.server import ShutdownRequest, run_until_stopped

TABLES = """
create table begun (job bigint not null, attempt int not null, pid int not null, at timestamptz default clock_timestamp());
create table computed (job bigint not null, step text not null, attempt int not null);
create table effects (job bigint not null, attempt int not null, at timestamptz default clock_timestamp());
"""

app = Penstock(role="sample-jobs")


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


STEPS = ("read", "draw", "bind", "send")


@app.job()
async def make_in_steps(ctx: Context, hang_in: str) -> list[str]:
    """Some steps, of which one never ends in the first attempt."""
    await begin(ctx)

    async def compute(step: str) -> str:
        async with app.transaction() as tx:
            await tx.execute(
                "insert into computed (job, step, attempt) values ($1, $2, $3)", ctx.job.id, step, ctx.attempt
            )
        if step == hang_in and ctx.attempt == 1:
            await asyncio.sleep(60)
        return step.upper()

    made = [await ctx.step(step, compute, step) for step in STEPS]
    async with ctx.finish(result=made) as tx:
        await tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job.id, ctx.attempt)
    return made


@app.job()
async def read_page(ctx: Context, page: int) -> None:
    """A child: a little work, an effect, and a result."""
    await asyncio.sleep(0.001 * (page % 10))
    async with ctx.finish(result=page) as tx:
        await tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job.id, ctx.attempt)


@app.job()
async def read_book(ctx: Context, pages: int) -> Any:
    """A parent of many."""
    await begin(ctx)
    read = await ctx.map("pages", [read_page(page=page) for page in range(pages)])
    async with ctx.finish(result=sum(read)) as tx:
        await tx.execute("insert into effects (job, attempt) values ($1, $2)", ctx.job.id, ctx.attempt)


if service := os.environ.get("SAMPLE_JOBS_SERVICE"):  # the address of a server that counts its visitors
    app.limit("service", 5)

    async def visit() -> None:
        async with aiohttp.ClientSession() as client, client.get(f"{service}/{os.getpid()}"):
            pass

    @app.job()
    async def call(ctx: Context) -> None:
        """A permit for each call."""
        async with ctx.limit("service"):
            await visit()

    @app.job(uses={"service": 1})
    async def call_alone(ctx: Context) -> None:
        """A permit for as long as the job runs."""
        await visit()


async def work(stop: ShutdownRequest, concurrency: int, lease: str, drain: str) -> int:
    async with app:
        await app.work(concurrency=concurrency, stop=stop.requested, lease=lease, drain=drain)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--concurrency", type=int, default=10)
    options.add_argument("--lease", default="15s")
    options.add_argument("--drain", default="20s")
    options.add_argument("--kinds", nargs="*", help="serve only these")
    options.add_argument("--schedule", help="declare `make` by this rule")
    chosen = options.parse_args(arguments)
    if chosen.schedule:
        app.schedule("making", chosen.schedule, make(), missed="all")
    for kind in set(app.kinds) - set(chosen.kinds or app.kinds):
        del app.kinds[kind]
    return run_until_stopped(app.settings, lambda stop: work(stop, chosen.concurrency, chosen.lease, chosen.drain))


if __name__ == "__main__":
    raise SystemExit(main())
