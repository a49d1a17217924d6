"""Cancelling: a running job really stops within two seconds, whether notifications arrive or not."""

import time

import pytest

from penstock import JobCancelled
from penstock.settings import DatabaseUrl
from tests.postgres_proxy import Cut, PostgresProxy
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def cancel_and_see(worker_processes: WorkerProcesses, job: int) -> None:
    await worker_processes.until_begun(job)
    began = time.monotonic()
    assert await worker_processes.client.cancel(job) == [job]
    with pytest.raises(JobCancelled):
        await worker_processes.client.result(job, timeout="10s")
    took = time.monotonic() - began
    print(f"\nstopped {took:.2f} s after the cancellation")  # noqa: T201  the measurement
    record = await worker_processes.record(job)
    assert (record.outcomes, record.failures) == (["cancelled"], 0)
    assert record.attempts[0].seconds < 10
    assert await worker_processes.effects() == {}


async def test_a_running_job_stops(worker_processes: WorkerProcesses) -> None:
    await worker_processes.start()
    await cancel_and_see(worker_processes, await worker_processes.client.enqueue(sample_jobs.make(seconds=60)))


async def test_a_running_job_stops_without_notifications(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl
) -> None:
    async with PostgresProxy(database_url) as proxy:
        proxy.rule = lambda asked: Cut.BEFORE if asked.statement.startswith("LISTEN") else None
        worker = await worker_processes.start(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        job = await worker_processes.client.enqueue(sample_jobs.make(seconds=60))
        await worker_processes.until_begun(job)
        await cancel_and_see(worker_processes, job)
        assert worker.running
        await worker_processes.stop()


async def test_what_does_not_run_is_over_at_once(worker_processes: WorkerProcesses) -> None:
    """Without any worker."""
    ready = await worker_processes.client.enqueue(sample_jobs.make())
    later = await worker_processes.client.enqueue(sample_jobs.make(), run_in="1h", unique="later")
    assert await worker_processes.client.cancel(ready, later, reason="not needed") == [ready, later]
    for job in (ready, later):
        record = await worker_processes.record(job)
        assert (record.state, record.outcomes, record.error["message"]) == ("cancelled", [], "not needed")
    assert await worker_processes.client.cancel(ready, later) == []
    assert (await worker_processes.client.enqueue(sample_jobs.make(), unique="later")).created


async def test_a_cancelled_job_whose_worker_dies_does_not_come_back(worker_processes: WorkerProcesses) -> None:
    worker = await worker_processes.start()
    job = await worker_processes.client.enqueue(sample_jobs.persist(seconds=60))
    await worker_processes.until_begun(job)
    await worker_processes.client.cancel(job)
    worker.kill()
    await worker_processes.start()
    await worker_processes.until_over()
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes) == ("cancelled", ["lost"])
    assert await worker_processes.effects() == {}
