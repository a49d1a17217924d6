"""Every connection of a tiny pool is taken: claiming stops and says so, and goes on when they come back."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from structlog.testing import capture_logs

from penstock import Context, Penstock
from penstock.settings import DatabaseUrl
from tests.polling import until
from tests.scenarios.worker_processes import WorkerProcesses

EVENT = "not claiming: every connection of the pool is in use"


async def test_claiming_stops_and_goes_on(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, tmp_path: Path
) -> None:
    app = Penstock(database_url=database_url, home=tmp_path, pool={"size": 2})
    ran = asyncio.Event()

    @app.job()
    async def work(ctx: Context) -> None:
        ran.set()

    async with app:
        working = asyncio.create_task(app.work(concurrency=4))
        await worker_processes.until("select exists (select from penstock.workers where load ? 'running')")
        with capture_logs() as logs:
            async with AsyncExitStack() as taken:
                for _ in range(2):
                    await taken.enter_async_context(app.transaction())
                waiting = asyncio.create_task(app.database.pool.repeat(lambda session: session.fetchval("select 1")))
                await until(lambda: app.database.pool.state.waiting > 0)
                job = await worker_processes.client.enqueue(work())
                await until(lambda: any(line["event"] == EVENT for line in logs))
                assert not ran.is_set()
                assert (await worker_processes.record(job)).attempt == 0
            await waiting
            await asyncio.wait_for(ran.wait(), 5)
        await worker_processes.until_over()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert (await worker_processes.record(job)).outcomes == ["done"]
