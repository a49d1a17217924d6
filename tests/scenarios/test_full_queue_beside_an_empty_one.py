"""A worker of two queues, one full and one empty: each slot that becomes free is filled at once."""

import time

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_a_free_slot_is_filled_without_waiting_for_the_next_poll(crew: Crew) -> None:
    await crew.hire("--concurrency", "2")  # of `default`, and as many of `refused`, which has nothing to do
    await crew.client.enqueue_many([workshop.make(seconds=0.05) for _ in range(8)])
    began = time.monotonic()
    await crew.until_over(within=20)
    assert time.monotonic() - began < 4, "idle workers look every 5 s"
