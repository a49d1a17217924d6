"""A handler blocks the event loop for longer than the lease: told with its stack, its job rescued, the worker healed."""

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_the_job_is_rescued_and_the_worker_recovers(crew: Crew) -> None:
    blocked = await crew.hire("--lease", "2s")
    job = await crew.client.enqueue(workshop.block(seconds=5))
    await crew.until_begun(job)
    await crew.hire("--lease", "2s")
    await crew.until_begun(job, attempt=2, within=4)  # while the first one still blocks
    await blocked.until("the event loop is blocked")
    [line] = blocked.lines("the event loop is blocked")
    assert "workshop.py" in line["stack"]
    assert "time.sleep(seconds)" in line["stack"]

    await crew.until_over()
    await blocked.until("worker started", times=2)
    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures) == ("done", ["lost", "done"], 0)
    assert await crew.effects() == {job: 1}

    later = await crew.client.enqueue_many([workshop.make(seconds=0.2) for _ in range(20)])
    await crew.until_over()
    pids = {row["pid"] for row in await crew.connection.fetch("select pid from begun where job = any ($1)", later)}
    assert blocked.pid in pids
