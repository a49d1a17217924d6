"""Many suspects that nobody may run now: those behind them have their turn all the same."""

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_a_paused_kind_does_not_block_the_suspects_of_others(crew: Crew) -> None:
    first = await crew.hire("--concurrency", "120")
    blocked = await crew.client.enqueue_many([workshop.make_quickly_again(seconds=60) for _ in range(110)])
    behind = await crew.client.enqueue(workshop.persist(seconds=1))
    await crew.until("select count(*) = 111 from begun")
    await crew.client.pause(kind="make_quickly_again")
    first.kill()
    await crew.hire()
    await crew.until("select exists (select from effects where job = $1)", behind, within=10)
    await crew.client.resume(kind="make_quickly_again")
    await crew.until_over()
    assert await crew.effects() == dict.fromkeys([*blocked, behind], 1)
