"""`app.result`: woken when the job ends, and still there for whoever comes late."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock import JobDead, Penstock
from penstock.errors import JobNotFound
from penstock.settings import Settings


async def think(ctx: Any, answer: int) -> int:
    await asyncio.sleep(0.3)
    return answer


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[Penstock]:
    async with Penstock(database_url=settings.database_url, home=settings.home) as opened:
        yield opened


async def test_a_late_answer_is_kept(app: Penstock) -> None:
    kind = app.job()(think)
    job = await app.enqueue(kind(answer=42))
    with pytest.raises(TimeoutError):
        await app.result(job, timeout=0.05)
    working = asyncio.create_task(app.work(concurrency=1))
    assert await app.result(job, timeout=10) == 42
    assert await app.result(job, timeout=1) == 42, "as often as one likes"
    working.cancel()
    await working


async def test_a_result_that_is_too_large_is_a_failure_with_a_reason(app: Penstock) -> None:
    @app.job()
    async def shout(ctx: Any) -> str:
        return "!" * (8 * 2**20 + 1)

    job = await app.enqueue(shout())
    working = asyncio.create_task(app.work(concurrency=1))
    with pytest.raises(JobDead, match="return the key of a file"):
        await app.result(job, timeout=10)
    working.cancel()
    await working


async def test_the_answer_of_nobody(app: Penstock) -> None:
    with pytest.raises(JobNotFound, match="history_kept"):
        await app.result(12345)
