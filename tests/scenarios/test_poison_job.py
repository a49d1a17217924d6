"""A job that kills its worker: dead after two lonely deaths, and everybody else is done."""

import asyncio

from tests.scenarios import workshop
from tests.scenarios.crew import Crew, Hand


async def keep_working(crew: Crew, deaths: list[int]) -> None:
    """What a supervisor does: a worker that dies is replaced."""
    worker: Hand = await crew.hire("--concurrency", "10", ready=False)
    while True:
        deaths.append(await worker.end(within=100))
        worker = await crew.hire("--concurrency", "10", ready=False)


async def test_poison_is_found_and_everybody_else_is_done(crew: Crew) -> None:
    deaths: list[int] = []
    supervisors = [asyncio.create_task(keep_working(crew, deaths)) for _ in range(2)]
    before = await crew.client.enqueue_many([workshop.make(seconds=0.3) for _ in range(30)])
    poison = await crew.client.enqueue(workshop.drink_poison())
    behind = await crew.client.enqueue_many([workshop.make(seconds=0.3) for _ in range(30)])
    await crew.until_over()
    for supervisor in supervisors:
        supervisor.cancel()
    await asyncio.gather(*supervisors, return_exceptions=True)

    story = await crew.story(poison)
    assert (story.state, story.outcomes, story.failures) == ("dead", ["lost", "lost", "lost"], 0)
    assert story.error["class"] == "Poison"
    assert deaths == [-9, -9, -9]  # once among others, twice alone
    assert await crew.effects() == dict.fromkeys([*before, *behind], 1)
    assert await crew.charged() == 0
