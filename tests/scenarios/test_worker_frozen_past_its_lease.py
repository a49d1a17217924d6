"""SIGSTOP past the lease, then SIGCONT: the job was rescued meanwhile, and the frozen worker's finish writes nothing."""

import asyncio
import signal

import pytest

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def test_a_frozen_worker_cannot_finish_what_others_have_done(worker_processes: WorkerProcesses) -> None:
    frozen = await worker_processes.start("--lease", "2s")
    job = await worker_processes.client.enqueue(sample_jobs.persist(seconds=1))
    await worker_processes.until_begun(job)
    frozen.signal(signal.SIGSTOP)
    other = await worker_processes.start("--lease", "2s")
    await worker_processes.until_over()
    assert await worker_processes.effects() == {job: 1}

    frozen.signal(signal.SIGCONT)
    await frozen.until("attempt lost")
    await frozen.until("joining the fleet again")
    await frozen.until("worker started", times=2)

    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures) == ("done", ["lost", "done"], 0)
    assert await worker_processes.effects() == {job: 1}

    other.signal(signal.SIGTERM)
    assert await other.end() == 0
    again = await worker_processes.client.enqueue(sample_jobs.make())
    await worker_processes.until_over()
    [first, second] = [line["worker"] for line in frozen.lines("worker started")]
    assert second > first
    assert (await worker_processes.record(again)).worker_id == second


@pytest.mark.slow
async def test_a_frozen_worker_alone_takes_its_job_up_again(worker_processes: WorkerProcesses) -> None:
    """Nobody else is there to rescue it: it loses its own lease, joins anew, and rescues itself."""
    worker = await worker_processes.start("--lease", "2s")
    job = await worker_processes.client.enqueue(sample_jobs.make_quickly_again(seconds=4))
    await worker_processes.until_begun(job)
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(2.5)  # the time of the lease: nobody is there who could tell us that it has passed
    worker.signal(signal.SIGCONT)
    await worker_processes.until_over()
    record = await worker_processes.record(job)
    assert (record.state, record.outcomes, record.failures) == ("done", ["lost", "done"], 0)
    assert await worker_processes.effects() == {job: 1}
