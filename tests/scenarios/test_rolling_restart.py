"""Three workers are replaced one after the other under load: nothing fails, and what they give back goes on at once."""

import asyncio
import signal

from tests.scenarios import workshop
from tests.scenarios.crew import Crew

HANDOVERS = """
select given_back.number, extract(epoch from taken.started_at - given_back.started_at)::float8 - given_back.seconds as took
from penstock.job_history as job
cross join lateral unnest(attempts) as given_back
join lateral unnest(attempts) as taken on taken.number = given_back.number + 1
where given_back.outcome = 'released' and given_back.seconds > 0
"""


async def keep_enqueuing(crew: Crew, jobs: list[int]) -> None:
    while True:
        jobs += await crew.client.enqueue_many([workshop.make(seconds=0.6) for _ in range(5)])
        await asyncio.sleep(0.2)


async def test_no_failure_is_charged_and_the_handover_is_quick(crew: Crew) -> None:
    jobs: list[int] = []
    options = ("--concurrency", "20", "--drain", "100ms")
    workers = list(await asyncio.gather(*(crew.hire(*options) for _ in range(3))))
    load = asyncio.create_task(keep_enqueuing(crew, jobs))
    await crew.until("select count(*) >= 15 from penstock.jobs where state = 'running'")
    for old in list(workers):
        await crew.until(
            "select exists (select from begun where pid = $1 and at > clock_timestamp() - interval '0.3 s')", old.pid
        )
        old.signal(signal.SIGTERM)
        workers.append(await crew.hire(*options))
        assert await old.end() == 0
    load.cancel()
    await crew.until_over()

    assert await crew.effects() == dict.fromkeys(jobs, 1)
    assert await crew.charged() == 0
    outcomes = {each.outcome for tries in (await crew.history()).values() for each in tries[:-1]}
    assert outcomes == {"released"}
    took = [row["took"] for row in await crew.connection.fetch(HANDOVERS)]
    print(f"\n{len(took)} handed over of {len(jobs)}, the slowest after {max(took):.3f} s")  # noqa: T201  the measurement
    assert max(took) < 1
    gone = await crew.connection.fetch("select gone_why from penstock.workers where gone_at is not null")
    assert [row["gone_why"] for row in gone] == ["left"] * 3
