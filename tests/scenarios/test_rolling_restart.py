"""Three workers are replaced one after the other under load: nothing fails, and what they give back goes on at once."""

import asyncio
import signal

import pytest

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

pytestmark = pytest.mark.slow

HANDOVERS = """
select given_back.number, extract(epoch from taken.started_at - given_back.started_at)::float8 - given_back.seconds as took
from penstock.job_history as job
cross join lateral unnest(attempts) as given_back
join lateral unnest(attempts) as taken on taken.number = given_back.number + 1
where given_back.outcome = 'requeued' and given_back.seconds > 0
"""


async def keep_enqueuing(worker_processes: WorkerProcesses, jobs: list[int]) -> None:
    while True:
        jobs += await worker_processes.client.enqueue_many([sample_jobs.make(seconds=0.6) for _ in range(5)])
        await asyncio.sleep(0.2)


async def test_no_failure_is_charged_and_the_handover_is_quick(worker_processes: WorkerProcesses) -> None:
    jobs: list[int] = []
    options = ("--concurrency", "20", "--drain", "100ms")
    workers = list(await asyncio.gather(*(worker_processes.start(*options) for _ in range(3))))
    load = asyncio.create_task(keep_enqueuing(worker_processes, jobs))
    await worker_processes.until("select count(*) >= 15 from penstock.jobs where state = 'running'")
    for old in list(workers):
        await worker_processes.until(
            "select exists (select from begun where pid = $1 and at > clock_timestamp() - interval '0.3 s')", old.pid
        )
        old.signal(signal.SIGTERM)
        workers.append(await worker_processes.start(*options))
        assert await old.end() == 0
    load.cancel()
    await worker_processes.until_over()

    assert await worker_processes.effects() == dict.fromkeys(jobs, 1)
    assert await worker_processes.charged() == 0
    outcomes = {each.outcome for tries in (await worker_processes.history()).values() for each in tries[:-1]}
    assert outcomes == {"requeued"}
    took = [row["took"] for row in await worker_processes.connection.fetch(HANDOVERS)]
    print(f"\n{len(took)} handed over of {len(jobs)}, the slowest after {max(took):.3f} s")  # noqa: T201  the measurement
    assert max(took) < 1
    gone = await worker_processes.connection.fetch("select gone_why from penstock.workers where gone_at is not null")
    assert [row["gone_why"] for row in gone] == ["left"] * 3
