"""SIGTERM: finish what can be finished, give back the rest, leave, exit 0. A second signal ends it at once."""

import asyncio
import signal
import time

import pytest

from penstock.settings import DatabaseUrl
from tests.postgres_proxy import PostgresProxy
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def test_what_ends_within_the_drain_is_done(worker_processes: WorkerProcesses) -> None:
    worker = await worker_processes.start("--concurrency", "1")
    running = await worker_processes.client.enqueue(sample_jobs.make(seconds=1))
    await worker_processes.until_begun(running)
    waiting = await worker_processes.client.enqueue(sample_jobs.make())
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 0
    assert (await worker_processes.record(running)).outcomes == ["done"]
    assert ((await worker_processes.record(waiting)).state, (await worker_processes.record(waiting)).attempt) == (
        "ready",
        0,
    )  # nothing new
    assert await worker_processes.effects() == {running: 1}
    assert await worker_processes.connection.fetchval("select gone_why from penstock.workers") == "left"


async def test_what_does_not_is_given_back(worker_processes: WorkerProcesses) -> None:
    worker = await worker_processes.start("--drain", "300ms")
    job = await worker_processes.client.enqueue(sample_jobs.make(seconds=60))
    await worker_processes.until_begun(job)
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 0
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures, record.quarantined) == ("ready", ["requeued"], 0, False)
    assert await worker_processes.effects() == {}


async def test_a_second_signal_is_immediate(worker_processes: WorkerProcesses) -> None:
    worker = await worker_processes.start()
    job = await worker_processes.client.enqueue(sample_jobs.make_quickly_again(seconds=60))
    await worker_processes.until_begun(job)
    worker.signal(signal.SIGTERM)
    await worker_processes.until("select draining from penstock.workers", within=3)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 128 + signal.SIGTERM
    assert time.monotonic() - began < 15, "the drain would take 20 s"
    await worker_processes.start()
    await worker_processes.until_over()
    record = await worker_processes.record(job)
    assert (record.outcomes, record.failures) == (["lost", "done"], 0)


async def test_a_stubborn_handler_cannot_keep_it(worker_processes: WorkerProcesses) -> None:
    worker = await worker_processes.start("--drain", "300ms")
    job = await worker_processes.client.enqueue(sample_jobs.persist(seconds=30))
    await worker_processes.until_begun(job)
    worker.signal(signal.SIGTERM)
    assert await worker.end(within=8) == 0
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures) == ("ready", ["requeued"], 0)


@pytest.mark.parametrize("trouble", ["silent", "refusing"])
async def test_it_ends_although_the_database_is_away(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, trouble: str
) -> None:
    """What cannot be given back is left to the lock and the lease."""
    async with PostgresProxy(database_url) as proxy:
        worker = await worker_processes.start("--drain", "500ms", PENSTOCK_DATABASE_URL=proxy.url.reveal())
        job = await worker_processes.client.enqueue(sample_jobs.make_quickly_again(seconds=60))
        await worker_processes.until_begun(job)
        with proxy.silent() if trouble == "silent" else proxy.refusing():
            await asyncio.sleep(0.2)  # into the trouble
            worker.signal(signal.SIGTERM)
            await worker.end(within=20)
    await worker_processes.start()
    await worker_processes.until_over()
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes[-1], record.failures) == ("done", "done", 0)
    assert await worker_processes.effects() == {job: 1}
