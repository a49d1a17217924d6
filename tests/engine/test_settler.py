"""The group commit of outcomes."""

import asyncio

import pytest

from penstock.engine.job import Done
from penstock.engine.settle import Settlement, Settler
from penstock.errors import LeaseLost
from tests.engine.conftest import JobQueue, nothing


async def test_one_bad_row_holds_nobody_back(job_queue: JobQueue) -> None:
    """It falls back to row by row: the good ones are done, the bad one is dead, with the database's reason."""
    numbers = await job_queue.enqueue(*(nothing(n=n) for n in range(3)))
    worker = await job_queue.worker()
    jobs = sorted(await job_queue.claim(worker), key=lambda job: job.id)
    settler = Settler(job_queue.database.pool, worker)
    for job, result in zip(jobs, ('"a"', "not JSON", '"c"'), strict=True):
        settler.add(Settlement(job, Done(result), 0.1))
    settler.start()
    async with asyncio.timeout(10):
        await settler.drain()
    await settler.stop()
    assert [await job_queue.state(number) for number in numbers] == ["done", "dead", "done"]
    assert (
        "JSON" in (await job_queue.find(numbers[1]))["error"] or "json" in (await job_queue.find(numbers[1]))["error"]
    )


async def test_a_stale_finish_does_not_even_begin(job_queue: JobQueue) -> None:
    """The handler's writes may be slow, or be refused for other reasons: they are not tried for nothing."""
    await job_queue.enqueue()
    frozen, healthy = await job_queue.worker(), await job_queue.worker()
    [stale] = await job_queue.claim(frozen)
    await job_queue.lose(frozen)
    await job_queue.claim_quarantined(healthy)
    with pytest.raises(LeaseLost):
        async with job_queue.context(stale, frozen).finish():
            pytest.fail("the block was entered")
