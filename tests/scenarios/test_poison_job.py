"""A job that kills its worker: dead after two lonely deaths, and everybody else is done."""

import asyncio

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcess, WorkerProcesses


async def keep_working(worker_processes: WorkerProcesses, deaths: list[int]) -> None:
    """What a supervisor does: a worker that dies is replaced."""
    worker: WorkerProcess = await worker_processes.start("--concurrency", "10", ready=False)
    while True:
        deaths.append(await worker.end(within=100))
        worker = await worker_processes.start("--concurrency", "10", ready=False)


async def test_poison_is_found_and_everybody_else_is_done(worker_processes: WorkerProcesses) -> None:
    deaths: list[int] = []
    supervisors = [asyncio.create_task(keep_working(worker_processes, deaths)) for _ in range(2)]
    before = await worker_processes.client.enqueue_many([sample_jobs.make(seconds=0.3) for _ in range(30)])
    poison = await worker_processes.client.enqueue(sample_jobs.drink_poison())
    behind = await worker_processes.client.enqueue_many([sample_jobs.make(seconds=0.3) for _ in range(30)])
    await worker_processes.until_over()
    for supervisor in supervisors:
        supervisor.cancel()
    await asyncio.gather(*supervisors, return_exceptions=True)

    record = await worker_processes.record(poison)
    assert (record.state, record.outcomes, record.failures) == ("dead", ["lost", "lost", "lost"], 0)
    assert record.error["class"] == "Poison"
    assert deaths == [-9, -9, -9]  # once among others, twice alone
    assert await worker_processes.effects() == dict.fromkeys([*before, *behind], 1)
    assert await worker_processes.charged() == 0
