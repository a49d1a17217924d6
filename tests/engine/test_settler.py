"""The group commit of outcomes."""

import asyncio

import pytest

from penstock.engine.outcome import Done
from penstock.engine.settler import Settled, Settler
from penstock.errors import LeaseLost
from tests.engine.conftest import Shop, nothing


async def test_one_bad_row_holds_nobody_back(shop: Shop) -> None:
    """It falls back to row by row: the good ones are done, the bad one is dead, with the database's reason."""
    numbers = await shop.enqueue(*(nothing(n=n) for n in range(3)))
    worker = await shop.worker()
    jobs = sorted(await shop.claim(worker), key=lambda job: job.id)
    settler = Settler(shop.database.pool, worker)
    for job, result in zip(jobs, ('"a"', "not JSON", '"c"'), strict=True):
        settler.add(Settled(job, Done(result), 0.1))
    settler.start()
    async with asyncio.timeout(10):
        await settler.drain()
    await settler.stop()
    assert [await shop.state(number) for number in numbers] == ["done", "dead", "done"]
    assert "JSON" in (await shop.find(numbers[1]))["error"] or "json" in (await shop.find(numbers[1]))["error"]


async def test_a_stale_finish_does_not_even_begin(shop: Shop) -> None:
    """The handler's writes may be slow, or be refused for other reasons: they are not tried for nothing."""
    await shop.enqueue()
    frozen, healthy = await shop.worker(), await shop.worker()
    [stale] = await shop.claim(frozen)
    await shop.lose(frozen)
    await shop.claim_suspect(healthy)
    with pytest.raises(LeaseLost):
        async with shop.context(stale, frozen).finish():
            pytest.fail("the block was entered")
