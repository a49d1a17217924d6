"""A folder with an application, the `penstock` command run in it, and workers started from it: all real processes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from asyncpg import Record

from penstock import Penstock
from penstock.engine import JobId, Kind
from penstock.settings import DatabaseUrl
from tests.processes import Started, start

SOURCE = """
import asyncio
import time

from penstock import Penstock, Permanent

app = Penstock()


@app.job()
async def greet(ctx, name="Ada"):
    return f"Hello, {name}"


@app.job(queue="slow")
async def rest(ctx, seconds=60.0):
    await ctx.progress(1, 4, "resting")
    await asyncio.sleep(seconds)


@app.job()
async def read(ctx, n=0):
    raise Permanent(f"page {n} is torn")


@app.job()
async def block(ctx, seconds=2.0):
    time.sleep(seconds)


@app.job(queue="hog")
async def hog(ctx):
    async with app.transaction() as tx:
        await tx.fetch("select pg_sleep(20)")
"""


async def anything(ctx: Any, /, **args: Any) -> None:
    """Stands for handlers that are declared in another process."""


class Application:
    """One application on one database."""

    def __init__(self, folder: Path, environ: dict[str, str], client: Penstock) -> None:
        self.folder = folder
        self.environ = environ
        self.client = client
        self._stack = AsyncExitStack()
        (folder / "shop.py").write_text(SOURCE)

    async def enqueue(self, kind: str, *, queue: str = "default", run_in: str | None = None, **args: Any) -> JobId:
        return await self.client.enqueue(Kind(kind, anything, queue)(**args), run_in=run_in)

    async def run(self, query: str, *arguments: Any) -> list[Record]:
        async with self.client.database.pool.session() as session:
            rows: list[Record] = await session.fetch(query, *arguments)
            return rows

    async def penstock(self, *arguments: str, **environ: str) -> tuple[int, str]:
        """Run the command to its end: exit code and output."""
        async with start("-m", "penstock", *arguments, environ=self.environ | environ, cwd=self.folder) as started:
            code = await started.end(60)
            return code, started.printed

    async def ask(self, *arguments: str, code: int = 0, **environ: str) -> Any:
        """What the command answers as JSON."""
        answered, said = await self.penstock(*arguments, "--json", **environ)
        assert answered == code, said
        return json.loads(said)

    async def worker(self, *options: str, place: str = "shop:app", **environ: str) -> Started:
        """A worker that has joined the fleet."""
        arguments = ("-m", "penstock", "worker", *([place] if place else []), *options)
        started = await self._stack.enter_async_context(
            start(*arguments, environ=self.environ | environ, cwd=self.folder)
        )
        if "--port" in options:
            await started.until("http://")
        if place:
            joined = "select from penstock.workers where pid = $1 and gone_at is null and load ? 'code'"
            await self.until(joined, started.pid)
        return started

    async def until(self, query: str, *arguments: Any, within: float = 20) -> None:
        """Look until the query gives a row."""
        async with asyncio.timeout(within):
            while not await self.run(query, *arguments):  # noqa: ASYNC110  nobody could set an event for us
                await asyncio.sleep(0.05)

    async def until_state(self, job_id: int, state: str) -> None:
        await self.until(
            "select from penstock.jobs where id = $1 and state::text = $2 union all "
            "select from penstock.job_history where id = $1 and outcome = $2",
            job_id,
            state,
        )

    async def close(self) -> None:
        await self._stack.aclose()


async def fetch(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(f"{address}{path}") as answer:
        return answer.status, await answer.text()


def address_of(worker: Started) -> str:
    """Where it listens, by its log."""
    found = re.search(r"http://127\.0\.0\.1:\d+", worker.printed)
    assert found is not None, worker.printed
    return found[0]


@pytest.fixture
async def application(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Application]:
    environ = {
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_HOME": str(tmp_path),
        "PENSTOCK_POOL__SIZE": "4",
        "PENSTOCK_LOG__FORMAT": "json",
    }
    async with Penstock(database_url=database_url, home=tmp_path, pool={"size": 2}) as client:
        made = Application(tmp_path, environ, client)
        try:
            yield made
        finally:
            await made.close()
