"""Cancelling: a running job really stops within two seconds, whether notifications arrive or not."""

import time

import pytest

from penstock import JobCancelled
from penstock.settings import DatabaseUrl
from tests.postgres_proxy import Cut, PostgresProxy
from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def cancel_and_see(crew: Crew, job: int) -> None:
    await crew.until_begun(job)
    began = time.monotonic()
    assert await crew.client.cancel(job) == [job]
    with pytest.raises(JobCancelled):
        await crew.client.result(job, timeout="10s")
    took = time.monotonic() - began
    print(f"\nstopped {took:.2f} s after the cancellation")  # noqa: T201  the measurement
    assert took < 2
    story = await crew.story(job)
    assert (story.outcomes, story.failures) == (["cancelled"], 0)
    assert story.tries[0].seconds < 10
    assert await crew.effects() == {}


async def test_a_running_job_stops(crew: Crew) -> None:
    await crew.hire()
    await cancel_and_see(crew, await crew.client.enqueue(workshop.make(seconds=60)))


async def test_a_running_job_stops_without_notifications(crew: Crew, database_url: DatabaseUrl) -> None:
    async with PostgresProxy(database_url) as proxy:
        proxy.rule = lambda asked: Cut.BEFORE if asked.statement.startswith("LISTEN") else None
        worker = await crew.hire(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        began = time.monotonic()
        job = await crew.client.enqueue(workshop.make(seconds=60))
        await crew.until_begun(job)
        assert time.monotonic() - began < 2  # it polls
        await cancel_and_see(crew, job)
        assert worker.running
        await crew.dismiss()


async def test_what_does_not_run_is_over_at_once(crew: Crew) -> None:
    """Without any worker."""
    ready = await crew.client.enqueue(workshop.make())
    later = await crew.client.enqueue(workshop.make(), run_in="1h", unique="later")
    assert await crew.client.cancel(ready, later, reason="not needed") == [ready, later]
    for job in (ready, later):
        story = await crew.story(job)
        assert (story.state, story.outcomes, story.error["message"]) == ("cancelled", [], "not needed")
    assert await crew.client.cancel(ready, later) == []
    assert (await crew.client.enqueue(workshop.make(), unique="later")).created


async def test_a_cancelled_job_whose_worker_dies_does_not_come_back(crew: Crew) -> None:
    worker = await crew.hire()
    job = await crew.client.enqueue(workshop.persist(seconds=60))
    await crew.until_begun(job)
    await crew.client.cancel(job)
    worker.kill()
    await crew.hire()
    await crew.until_over()
    story = await crew.story(job)
    assert (story.state, story.outcomes) == ("cancelled", ["lost"])
    assert await crew.effects() == {}
