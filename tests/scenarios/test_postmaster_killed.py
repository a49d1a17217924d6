"""The whole server dies under running jobs: nobody who lives is robbed, and nothing is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from penstock import Penstock
from penstock.database import EmbeddedServer
from penstock.errors import DatabaseUnreachable
from penstock.settings import PostgresSettings
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

pytestmark = pytest.mark.slow


@pytest.fixture
async def worker_processes(home: Path, tmp_path: Path) -> AsyncIterator[WorkerProcesses]:
    """On a server of its own, which may be killed."""
    async with Penstock(home=home, pool={"size": 2}) as client:
        connection = await asyncpg.connect(client.dsn)
        await connection.execute(sample_jobs.TABLES)
        made = WorkerProcesses(client, connection, tmp_path, {"PENSTOCK_HOME": str(home)})
        try:
            yield made
        finally:
            await made.stop()
            made.connection.terminate()


def postmaster(home: Path) -> int:
    running = EmbeddedServer(home, PostgresSettings()).postmaster.running()
    assert running is not None
    return running.pid


async def look_again(worker_processes: WorkerProcesses) -> None:
    """The connection of the test has died with the server."""
    worker_processes.connection.terminate()
    async with asyncio.timeout(20):
        while worker_processes.connection.is_closed():
            with suppress(DatabaseUnreachable):  # cut in the middle of the handshake
                worker_processes.connection = await worker_processes.client.database.direct("look")


@pytest.mark.parametrize("victim", ["the postmaster", "one backend"])
async def test_live_work_is_not_robbed(worker_processes: WorkerProcesses, home: Path, victim: str) -> None:
    """A killed postmaster comes back as a new one; a killed backend makes it drop all sessions, and go on as the same."""
    await worker_processes.start("--concurrency", "5")
    await worker_processes.start("--concurrency", "5")
    running = await worker_processes.client.enqueue_many([sample_jobs.make(seconds=4) for _ in range(10)])
    waiting = await worker_processes.client.enqueue_many([sample_jobs.make() for _ in range(50)])
    await worker_processes.until("select count(*) = 10 from begun")

    pid = postmaster(home) if victim == "the postmaster" else worker_processes.connection.get_server_pid()
    os.kill(pid, signal.SIGKILL)
    await look_again(worker_processes)
    everywhere = "(select count(*) from penstock.jobs) + (select count(*) from penstock.job_history)"
    assert await worker_processes.connection.fetchval(f"select {everywhere}") == 60
    await worker_processes.until_over()

    history = await worker_processes.history()
    assert {job: [each.outcome for each in history[job]] for job in running} == {job: ["done"] for job in running}
    assert await worker_processes.effects() == dict.fromkeys([*running, *waiting], 1)
    assert await worker_processes.charged() == 0
    assert (
        await worker_processes.connection.fetchval("select count(*) from penstock.workers where gone_at is null") == 2
    )
