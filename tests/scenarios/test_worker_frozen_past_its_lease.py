"""SIGSTOP past the lease, then SIGCONT: the job was rescued meanwhile, and the frozen worker's finish writes nothing."""

import asyncio
import signal

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_a_frozen_worker_cannot_finish_what_others_have_done(crew: Crew) -> None:
    frozen = await crew.hire("--lease", "2s")
    job = await crew.client.enqueue(workshop.persist(seconds=1))
    await crew.until_begun(job)
    frozen.signal(signal.SIGSTOP)
    other = await crew.hire("--lease", "2s")
    await crew.until_over()
    assert await crew.effects() == {job: 1}

    frozen.signal(signal.SIGCONT)
    await frozen.until("attempt lost")
    await frozen.until("joining the fleet anew")
    await frozen.until("worker started", times=2)

    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures) == ("done", ["lost", "done"], 0)
    assert await crew.effects() == {job: 1}

    other.signal(signal.SIGTERM)
    assert await other.end() == 0
    again = await crew.client.enqueue(workshop.make())
    await crew.until_over()
    [first, second] = [line["worker"] for line in frozen.lines("worker started")]
    assert second > first
    assert (await crew.story(again)).worker_id == second


async def test_a_frozen_worker_alone_takes_its_job_up_again(crew: Crew) -> None:
    """Nobody else is there to rescue it: it loses its own lease, joins anew, and rescues itself."""
    worker = await crew.hire("--lease", "2s")
    job = await crew.client.enqueue(workshop.make_quickly_again(seconds=4))
    await crew.until_begun(job)
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(2.5)  # the time of the lease: nobody is there who could tell us that it has passed
    worker.signal(signal.SIGCONT)
    await crew.until_over()
    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures) == ("done", ["lost", "done"], 0)
    assert await crew.effects() == {job: 1}
