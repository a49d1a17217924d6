"""Three workers that are killed, cut and stopped, 25 times each: one schedule, and one job for each of its ticks.

The processes are forked from one that has imported everything, for 75 of them are many.
"""

import asyncio
import multiprocessing
import os
import random
import signal
from datetime import timedelta

import pytest

from penstock.engine import failpoint
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

pytestmark = pytest.mark.slow

RESTARTS = 25
WORKERS = 3
FAULTS = ["cron-tick=kill", "cron-tick=cut", "cron-tick=kill@2", "", ""]  # nothing: from outside
OPTIONS = ["--schedule", "every 1s", "--drain", "100ms"]

JOBS = "select id from penstock.jobs union all select id from penstock.job_history"


def work(url: str, fault: str) -> None:
    """The life of one process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ |= {"PENSTOCK_DATABASE_URL": url, "PENSTOCK_POOL__SIZE": "2", "PENSTOCK_LOG__LEVEL": "error"}
    failpoint._armed.update(failpoint.parse(fault))
    raise SystemExit(sample_jobs.main(OPTIONS))


async def restart_again_and_again(worker_processes: WorkerProcesses, chance: random.Random) -> None:
    """One worker after the other."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([work.__module__])
    for number in range(RESTARTS):
        process = forking.Process(
            target=work, args=(worker_processes.client.dsn, FAULTS[number % len(FAULTS)]), daemon=True
        )
        process.start()
        while process.is_alive() and not await joined(worker_processes, process.pid):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        # It may die by itself, between a tick and its commit.
        await asyncio.to_thread(process.join, chance.uniform(0, 0.4))
        if process.exitcode is None and process.pid is not None:
            os.kill(process.pid, chance.choice([signal.SIGKILL, signal.SIGTERM]))
            await asyncio.to_thread(process.join)


async def joined(worker_processes: WorkerProcesses, pid: int | None) -> bool:
    async with worker_processes.client.database.pool.session() as session:
        return bool(await session.fetchval("select exists (select from penstock.workers where pid = $1)", pid))


async def test_one_schedule_and_one_job_for_each_tick(worker_processes: WorkerProcesses) -> None:
    chance = random.Random(4)
    async with asyncio.TaskGroup() as workers:
        for _ in range(WORKERS):
            workers.create_task(restart_again_and_again(worker_processes, chance))
    last = await worker_processes.start(*OPTIONS)
    await worker_processes.until("select next_at > penstock.now() from penstock.schedules", within=30)
    last.signal(signal.SIGTERM)
    await last.end()

    [schedule] = await worker_processes.connection.fetch("select * from penstock.schedules")
    keys = await worker_processes.connection.fetch("select key, job_id from penstock.job_keys order by key")
    jobs = [row["id"] for row in await worker_processes.connection.fetch(JOBS)]
    workers_seen = await worker_processes.connection.fetchval("select count(*) from penstock.workers")
    print(f"\n{workers_seen} workers, {len(jobs)} ticks")  # noqa: T201  the measurement
    assert workers_seen >= WORKERS * RESTARTS
    assert len(jobs) == len(set(jobs)) == len(keys) == schedule["fired"] > 5
    assert {row["job_id"] for row in keys} == set(jobs)
    assert [row["key"].split("/")[1] for row in keys] == [
        f"{schedule['next_at'] - timedelta(seconds=back):%Y-%m-%dT%H:%M:%SZ}" for back in range(len(keys), 0, -1)
    ], "a second was left out"
    assert schedule["skipped"] == 0
