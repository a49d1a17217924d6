"""An application whose jobs pass every failpoint, and a worker for it: `python -m tests.proofs.failpoint_worker`.

A workload is a few jobs and what they must have left behind when everything is over: results in the history, and rows in
`proofs.effects`, which were written by the transactions that finished them.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import Context, Penstock
from penstock.cli.server import ShutdownRequest, run_until_stopped
from penstock.engine import Call

TABLES = """
create schema proofs;
create table proofs.effects (job bigint not null, attempt int not null, value int not null);
create schema kept;
create table kept.jobs (id bigint not null, attempt int not null);
"""
PAGES = 3

app = Penstock(role="failpoints")


@app.job()
async def square(ctx: Context, n: int) -> int:
    """Settled by group commit."""
    return n * n


@app.job()
async def write(ctx: Context, n: int) -> None:
    """Settled by its own transaction, with an effect."""
    await end(ctx, n * n)


@app.job()
async def read(ctx: Context, n: int) -> None:
    """Steps, then an effect that needs all of them."""

    async def read_page(page: int) -> int:
        return page * page

    await end(ctx, sum([await ctx.step(f"page-{page}", read_page, n + page) for page in range(PAGES)]))


@app.job()
async def gather(ctx: Context, n: int) -> None:
    """Children, then an effect that needs all of them."""
    await end(ctx, sum(await ctx.map("squares", [square(n=n + page) for page in range(PAGES)])))


async def end(ctx: Context, value: int) -> None:
    async with ctx.finish(result=value) as tx:
        await tx.execute("insert into proofs.effects values ($1, $2, $3)", ctx.job.id, ctx.attempt, value)


@dataclass(frozen=True)
class Workload:
    """Calls, what each of them must return, and how they come in."""

    call: Callable[..., Call]
    returns: Callable[[int], int]
    effects: bool = False
    later: bool = False
    scheduled: bool = False


def several(n: int) -> int:
    return sum((n + page) ** 2 for page in range(PAGES))


WORKLOADS = {
    "plain": Workload(square, lambda n: n * n),
    "finish": Workload(write, lambda n: n * n, effects=True),
    "steps": Workload(read, several, effects=True),
    "map": Workload(gather, several, effects=True),
    "later": Workload(write, lambda n: n * n, effects=True, later=True),
    "scheduled": Workload(write, lambda n: n * n, effects=True, scheduled=True),
}


async def work(stop: ShutdownRequest, **options: Any) -> int:
    async with app:
        await app.work(stop=stop.requested, drain="5s", **options)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--lease", default="2s")
    options.add_argument("--concurrency", type=int, default=10)
    options.add_argument("--schedule", action="store_true")
    chosen = options.parse_args(arguments)
    if chosen.schedule:
        app.schedule("hourly", "every 1h", write(n=1), missed="one")
    return run_until_stopped(app.settings, lambda stop: work(stop, lease=chosen.lease, concurrency=chosen.concurrency))


if __name__ == "__main__":
    raise SystemExit(main())
