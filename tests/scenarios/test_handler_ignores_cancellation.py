"""A handler that cannot be stopped: its job is settled without it, and its slot stays taken until it really ends."""

from datetime import timedelta

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def test_cancel_and_timeout_settle_without_the_handler(worker_processes: WorkerProcesses) -> None:
    worker = await worker_processes.start("--concurrency", "2")
    cancelled = await worker_processes.client.enqueue(sample_jobs.persist(seconds=10))
    overdue = await worker_processes.client.enqueue(sample_jobs.persist_too_long(seconds=10))
    await worker_processes.until_begun(cancelled)
    await worker_processes.until_begun(overdue)
    await worker_processes.client.cancel(cancelled)
    behind = await worker_processes.client.enqueue(sample_jobs.make())

    await worker.until("a handler ignores its cancellation", times=2, within=9)
    for job in (cancelled, overdue):
        await worker_processes.until(
            "select not exists (select from penstock.jobs where id = $1 and state = 'running')", job, within=2
        )
    assert not await worker_processes.connection.fetchval("select exists (select from begun where job = $1)", behind)
    places = [line["place"] for line in worker.lines("a handler ignores its cancellation")]
    assert all("sample_jobs.py" in place for place in places), places

    await worker_processes.until_begun(behind)  # a handler has ended, and left its slot
    await worker_processes.until_over()
    waited = "select max(at) filter (where job = $1) - max(at) filter (where job = $2) from begun"
    assert await worker_processes.connection.fetchval(waited, behind, cancelled) > timedelta(seconds=9.5)
    record = await worker_processes.record(cancelled)
    assert (record.state, record.outcomes, record.failures) == ("cancelled", ["cancelled"], 0)
    record = await worker_processes.record(overdue)
    assert (record.state, record.outcomes, record.failures) == ("dead", ["dead"], 1)
    assert record.error["class"] == "ResourceLimit"
    await worker.until("attempt lost")
    assert await worker_processes.effects() == {behind: 1}
