"""A worker is killed while it runs 100 jobs, and the next one, too: none of the hundred is held guilty."""

from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_no_innocent_is_buried(crew: Crew) -> None:
    first = await crew.hire("--concurrency", "100")
    jobs = await crew.client.enqueue_many([workshop.make_quickly_again(seconds=60) for _ in range(100)])
    await crew.until("select count(*) = 100 from begun where attempt = 1")
    first.kill()
    second = await crew.hire("--concurrency", "101")
    more = await crew.client.enqueue_many([workshop.make_quickly_again(seconds=60) for _ in range(100)])
    await crew.until("select count(*) = 100 from begun where attempt = 1 and job = any ($1)", more)
    await crew.until("select exists (select from begun where attempt = 2)")  # a suspect runs beside them
    second.kill()
    await crew.hire("--concurrency", "100")
    await crew.until_over()

    assert await crew.connection.fetchval("select count(*) from penstock.jobs") == 0
    assert await crew.effects() == dict.fromkeys([*jobs, *more], 1)
    assert await crew.charged() == 0
    outcomes = {job: [each.outcome for each in tries] for job, tries in (await crew.history()).items()}
    assert {tuple(outcomes[job]) for job in more} == {("lost", "done")}
    assert {tuple(outcomes[job]) for job in jobs} <= {("lost", "done"), ("lost", "lost", "done")}
