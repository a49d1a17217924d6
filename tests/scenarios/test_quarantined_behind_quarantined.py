"""Many quarantined that nobody may run now: those behind them have their turn all the same."""

import pytest

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

pytestmark = pytest.mark.slow


async def test_a_paused_kind_does_not_block_the_quarantined_jobs_of_others(worker_processes: WorkerProcesses) -> None:
    first = await worker_processes.start("--concurrency", "120")
    blocked = await worker_processes.client.enqueue_many(
        [sample_jobs.make_quickly_again(seconds=60) for _ in range(110)]
    )
    behind = await worker_processes.client.enqueue(sample_jobs.persist(seconds=1))
    await worker_processes.until("select count(*) = 111 from begun")
    await worker_processes.client.pause(kind="make_quickly_again")
    first.kill()
    await worker_processes.start()
    await worker_processes.until("select exists (select from effects where job = $1)", behind, within=10)
    await worker_processes.client.resume(kind="make_quickly_again")
    await worker_processes.until_over()
    assert await worker_processes.effects() == dict.fromkeys([*blocked, behind], 1)
