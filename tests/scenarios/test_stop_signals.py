"""SIGTERM: finish what can be finished, give back the rest, leave, exit 0. A second signal ends it at once."""

import asyncio
import signal
import time

import pytest

from penstock.settings import DatabaseUrl
from tests.postgres_proxy import PostgresProxy
from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_what_ends_within_the_drain_is_done(crew: Crew) -> None:
    worker = await crew.hire("--concurrency", "1")
    running = await crew.client.enqueue(workshop.make(seconds=1))
    await crew.until_begun(running)
    waiting = await crew.client.enqueue(workshop.make())
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 0
    assert (await crew.story(running)).outcomes == ["done"]
    assert ((await crew.story(waiting)).state, (await crew.story(waiting)).attempt) == ("ready", 0)  # nothing new
    assert await crew.effects() == {running: 1}
    assert await crew.connection.fetchval("select gone_why from penstock.workers") == "left"


async def test_what_does_not_is_given_back(crew: Crew) -> None:
    worker = await crew.hire("--drain", "300ms")
    job = await crew.client.enqueue(workshop.make(seconds=60))
    await crew.until_begun(job)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 0
    assert time.monotonic() - began < 3
    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures, story.suspect) == ("ready", ["released"], 0, False)
    assert await crew.effects() == {}


async def test_a_second_signal_is_immediate(crew: Crew) -> None:
    worker = await crew.hire()
    job = await crew.client.enqueue(workshop.make_quickly_again(seconds=60))
    await crew.until_begun(job)
    worker.signal(signal.SIGTERM)
    await crew.until("select draining from penstock.workers", within=3)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 128 + signal.SIGTERM
    assert time.monotonic() - began < 1
    await crew.hire()
    await crew.until_over()
    story = await crew.story(job)
    assert (story.outcomes, story.failures) == (["lost", "done"], 0)


async def test_a_stubborn_handler_cannot_keep_it(crew: Crew) -> None:
    worker = await crew.hire("--drain", "300ms")
    job = await crew.client.enqueue(workshop.persist(seconds=30))
    await crew.until_begun(job)
    worker.signal(signal.SIGTERM)
    assert await worker.end(within=8) == 0
    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures) == ("ready", ["released"], 0)


@pytest.mark.parametrize("trouble", ["silent", "refusing"])
async def test_it_ends_although_the_database_is_away(crew: Crew, database_url: DatabaseUrl, trouble: str) -> None:
    """What cannot be given back is left to the lock and the lease."""
    async with PostgresProxy(database_url) as proxy:
        worker = await crew.hire("--drain", "500ms", PENSTOCK_DATABASE_URL=proxy.url.reveal())
        job = await crew.client.enqueue(workshop.make_quickly_again(seconds=60))
        await crew.until_begun(job)
        with proxy.silent() if trouble == "silent" else proxy.refusing():
            await asyncio.sleep(0.2)  # into the trouble
            worker.signal(signal.SIGTERM)
            await worker.end(within=20)
    await crew.hire()
    await crew.until_over()
    story = await crew.story(job)
    assert (story.state, story.outcomes[-1], story.failures) == ("done", "done", 0)
    assert await crew.effects() == {job: 1}
