"""A handler that cannot be stopped: its job is settled without it, and its slot stays taken until it really ends."""

from datetime import timedelta

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_cancel_and_timeout_settle_without_the_handler(crew: Crew) -> None:
    worker = await crew.hire("--concurrency", "2")
    cancelled = await crew.client.enqueue(workshop.persist(seconds=10))
    overdue = await crew.client.enqueue(workshop.persist_too_long(seconds=10))
    await crew.until_begun(cancelled)
    await crew.until_begun(overdue)
    await crew.client.cancel(cancelled)
    behind = await crew.client.enqueue(workshop.make())

    await worker.until("a handler ignores its cancellation", times=2, within=9)
    for job in (cancelled, overdue):
        await crew.until(
            "select not exists (select from penstock.jobs where id = $1 and state = 'running')", job, within=2
        )
    assert not await crew.connection.fetchval("select exists (select from begun where job = $1)", behind)
    places = [line["place"] for line in worker.lines("a handler ignores its cancellation")]
    assert all("workshop.py" in place for place in places), places

    await crew.until_begun(behind)  # a handler has ended, and left its slot
    await crew.until_over()
    waited = "select max(at) filter (where job = $1) - max(at) filter (where job = $2) from begun"
    assert await crew.connection.fetchval(waited, behind, cancelled) > timedelta(seconds=9.5)
    story = await crew.story(cancelled)
    assert (story.state, story.outcomes, story.failures) == ("cancelled", ["cancelled"], 0)
    story = await crew.story(overdue)
    assert (story.state, story.outcomes, story.failures) == ("dead", ["dead"], 1)
    assert story.error["class"] == "ResourceLimit"
    await worker.until("attempt lost")
    assert await crew.effects() == {behind: 1}
