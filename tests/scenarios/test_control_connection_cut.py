"""The heartbeat's connection is cut, again and again: the worker takes its lock anew before anybody believes it dead."""

import asyncio
import random

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

# It waits until they are gone: a lock that is held afterwards is a new one.
CUT = """
select count(*) filter (where pg_terminate_backend(pid, 5000)) from pg_stat_activity
where application_name like 'penstock-heartbeat%' and datname = current_database()
"""
HELD = """
select count(*) from pg_locks
where locktype = 'advisory' and granted and classid = hashtext('penstock worker')::int8::bit(32)::int8::oid
  and database = (select oid from pg_database where datname = current_database())
"""


async def test_a_worker_keeps_its_jobs(worker_processes: WorkerProcesses) -> None:
    rng = random.Random(4)
    await asyncio.gather(*(worker_processes.start() for _ in range(3)))
    jobs = await worker_processes.client.enqueue_many([sample_jobs.make(seconds=9) for _ in range(6)])
    await worker_processes.until("select count(*) = 6 from begun")
    for _ in range(10):
        assert await worker_processes.connection.fetchval(CUT) == 3
        await worker_processes.until(f"select ({HELD}) = 3", within=3)
        await asyncio.sleep(rng.uniform(0, 0.3))  # at any moment of a heartbeat
    await worker_processes.until_over()

    assert {job: [each.outcome for each in tries] for job, tries in (await worker_processes.history()).items()} == {
        job: ["done"] for job in jobs
    }
    assert await worker_processes.effects() == dict.fromkeys(jobs, 1)
    assert (
        await worker_processes.connection.fetchval("select count(*) from penstock.workers where gone_at is not null")
        == 0
    )
