"""A worker of two queues, one full and one empty: each slot that becomes free is filled at once."""

import time

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


async def test_a_free_slot_is_filled_without_waiting_for_the_next_poll(worker_processes: WorkerProcesses) -> None:
    await worker_processes.start(
        "--concurrency", "2"
    )  # of `default`, and as many of `refused`, which has nothing to do
    await worker_processes.client.enqueue_many([sample_jobs.make(seconds=0.05) for _ in range(8)])
    began = time.monotonic()
    await worker_processes.until_over(within=20)
    assert time.monotonic() - began < 4, "idle workers look every 5 s"
