"""A job that takes too long, and one that reports no progress: both end in time, and the limit is the reason."""

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def test_a_timeout_is_charged_retried_alone_and_then_final(worker_processes: WorkerProcesses) -> None:
    await worker_processes.start()
    job = await worker_processes.client.enqueue(sample_jobs.take_too_long())
    await worker_processes.until("select state = 'later' from penstock.jobs where id = $1", job)
    assert (await worker_processes.record(job)).quarantined  # its next try is alone
    await worker_processes.until_over()
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures) == ("dead", ["retry", "dead"], 2)
    assert all(0.5 <= each.seconds < 60 for each in record.attempts)
    assert record.error["class"] == "ResourceLimit"
    assert "sample_jobs.py" in record.error["traceback"]


async def test_a_stall_counts_from_the_last_progress(worker_processes: WorkerProcesses) -> None:
    await worker_processes.start()
    job = await worker_processes.client.enqueue(sample_jobs.stall(steps=6))
    await worker_processes.until("select (progress ->> 'done')::int > 0 from penstock.jobs where id = $1", job)
    await worker_processes.until_over()
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures) == ("dead", ["dead"], 1)
    assert 1.5 <= record.attempts[0].seconds < 60  # five pauses of 0.2 s were within the limit, the silence was not
    assert "no progress" in record.error["message"]
