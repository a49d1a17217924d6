"""A worker is killed while it runs 100 jobs, and the next one, too: none of the hundred is held guilty."""

import pytest

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

pytestmark = pytest.mark.slow


async def test_no_innocent_is_buried(worker_processes: WorkerProcesses) -> None:
    first = await worker_processes.start("--concurrency", "100")
    jobs = await worker_processes.client.enqueue_many([sample_jobs.make_quickly_again(seconds=60) for _ in range(100)])
    await worker_processes.until("select count(*) = 100 from begun where attempt = 1")
    first.kill()
    second = await worker_processes.start("--concurrency", "101")
    more = await worker_processes.client.enqueue_many([sample_jobs.make_quickly_again(seconds=60) for _ in range(100)])
    await worker_processes.until("select count(*) = 100 from begun where attempt = 1 and job = any ($1)", more)
    await worker_processes.until(
        "select exists (select from begun where attempt = 2)"
    )  # a quarantined job runs beside them
    second.kill()
    await worker_processes.start("--concurrency", "100")
    await worker_processes.until_over()

    assert await worker_processes.connection.fetchval("select count(*) from penstock.jobs") == 0
    assert await worker_processes.effects() == dict.fromkeys([*jobs, *more], 1)
    assert await worker_processes.charged() == 0
    outcomes = {job: [each.outcome for each in tries] for job, tries in (await worker_processes.history()).items()}
    assert {tuple(outcomes[job]) for job in more} == {("lost", "done")}
    assert {tuple(outcomes[job]) for job in jobs} <= {("lost", "done"), ("lost", "lost", "done")}
