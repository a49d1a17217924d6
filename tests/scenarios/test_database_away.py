"""The database cannot be reached for longer than the lease, or refuses to write: workers wait, and nothing is charged."""

import asyncio

import pytest

from penstock.settings import DatabaseUrl
from tests.postgres_proxy import PostgresProxy
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


@pytest.mark.slow
async def test_workers_come_back_after_a_long_absence(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl
) -> None:
    async with PostgresProxy(database_url) as proxy:
        worker = await worker_processes.start("--lease", "2s", PENSTOCK_DATABASE_URL=proxy.url.reveal())
        running = await worker_processes.client.enqueue(sample_jobs.make_quickly_again(seconds=60))
        await worker_processes.until_begun(running)
        with proxy.refusing():
            await worker.until("the lease could not be renewed: stopping own work")
            await asyncio.sleep(2)  # it wants to join anew, and cannot
            assert worker.running, worker.logged
        late = await worker_processes.client.enqueue(sample_jobs.make())
        await worker_processes.until_over()
        record = await worker_processes.record(running)
        assert (record.outcomes, record.failures) == (["lost", "done"], 0)
        assert await worker_processes.effects() == {running: 1, late: 1}
        await worker_processes.stop()


async def test_a_finish_during_an_absence_is_not_charged(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl
) -> None:
    async with PostgresProxy(database_url) as proxy:
        worker = await worker_processes.start(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        job = await worker_processes.client.enqueue(sample_jobs.make(seconds=1))
        await worker_processes.until_begun(job)
        with proxy.refusing():
            await worker.until("attempt failed")
        await worker_processes.until_over()
        record = await worker_processes.record(job)
        assert (record.outcomes, record.failures) == (["snooze", "done"], 0)
        assert await worker_processes.effects() == {job: 1}
        await worker_processes.stop()


@pytest.mark.slow
async def test_a_full_disk_buries_nobody(worker_processes: WorkerProcesses) -> None:
    """The server answers, and cannot write the outcomes: that is not the jobs' fault."""
    worker = await worker_processes.start()
    await worker_processes.connection.execute("""
        create function no_space() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
        create trigger full_disk before insert on penstock.job_history for each row execute function no_space();
    """)
    one = await worker_processes.client.enqueue(sample_jobs.idle())
    many = await worker_processes.client.enqueue_many([sample_jobs.idle() for _ in range(20)])
    await worker.until("outcomes could not be written yet")
    await worker_processes.until("select count(*) = 21 from penstock.jobs where attempt = 1")
    await worker_processes.connection.execute("drop trigger full_disk on penstock.job_history")
    await worker_processes.until_over()
    assert await worker_processes.connection.fetchval("select count(*) from penstock.jobs") == 0  # no dead letters
    assert {job: [each.outcome for each in tries] for job, tries in (await worker_processes.history()).items()} == {
        job: ["done"] for job in [one, *many]
    }
