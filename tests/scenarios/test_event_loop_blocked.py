"""A handler blocks the event loop for longer than the lease: told with its stack, its job rescued, the worker healed."""

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def test_the_job_is_rescued_and_the_worker_recovers(worker_processes: WorkerProcesses) -> None:
    blocked = await worker_processes.start("--lease", "2s")
    job = await worker_processes.client.enqueue(sample_jobs.block(seconds=5))
    await worker_processes.until_begun(job)
    await worker_processes.start("--lease", "2s")
    await worker_processes.until_begun(job, attempt=2, within=4)  # while the first one still blocks
    await blocked.until("the event loop is blocked")
    [line] = blocked.lines("the event loop is blocked")
    assert "sample_jobs.py" in line["stack"]
    assert "time.sleep(seconds)" in line["stack"]

    await worker_processes.until_over()
    await blocked.until("worker started", times=2)
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures) == ("done", ["lost", "done"], 0)
    assert await worker_processes.effects() == {job: 1}

    later = await worker_processes.client.enqueue_many([sample_jobs.make(seconds=0.2) for _ in range(20)])
    await worker_processes.until_over()
    pids = {
        row["pid"]
        for row in await worker_processes.connection.fetch("select pid from begun where job = any ($1)", later)
    }
    assert blocked.pid in pids
