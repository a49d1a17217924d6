"""A job that takes too long, and one that reports no progress: both end in time, and the limit is the reason."""

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_a_timeout_is_charged_retried_alone_and_then_final(crew: Crew) -> None:
    await crew.hire()
    job = await crew.client.enqueue(workshop.take_too_long())
    await crew.until("select state = 'later' from penstock.jobs where id = $1", job)
    assert (await crew.story(job)).suspect  # its next try is alone
    await crew.until_over()
    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures) == ("dead", ["retry", "dead"], 2)
    assert all(0.5 <= each.seconds < 2 for each in story.tries)
    assert story.error["class"] == "ResourceLimit"
    assert "workshop.py" in story.error["traceback"]


async def test_a_stall_counts_from_the_last_progress(crew: Crew) -> None:
    await crew.hire()
    job = await crew.client.enqueue(workshop.stall(steps=6))
    await crew.until("select (progress ->> 'done')::int > 0 from penstock.jobs where id = $1", job)
    await crew.until_over()
    story = await crew.story(job)
    assert (story.state, story.outcomes, story.failures) == ("dead", ["dead"], 1)
    assert 1.5 <= story.tries[0].seconds < 4  # five pauses of 0.2 s were within the limit, the silence was not
    assert "no progress" in story.error["message"]
