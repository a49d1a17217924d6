"""The server ends sessions that are idle for a while (`idle_session_timeout`): nobody notices but the server."""

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

OWN = """
select array_agg(pid) from pg_stat_activity
where datname = current_database() and application_name like 'penstock-sample-jobs%:' || $1::text
"""
ENDED = "select not exists (select from pg_stat_activity where pid = any ($1::int[]))"


async def test_a_worker_goes_on_after_its_idle_sessions_were_ended(worker_processes: WorkerProcesses) -> None:
    name = await worker_processes.connection.fetchval("select current_database()")
    # of those that come from now on
    await worker_processes.connection.execute(f"alter database {name} set idle_session_timeout = '1500ms'")
    hand = await worker_processes.start()
    jobs = []
    for _ in range(2):
        jobs.append(await worker_processes.client.enqueue(sample_jobs.make()))
        await worker_processes.until_over()
        pids = await worker_processes.connection.fetchval(OWN, str(hand.pid))
        await worker_processes.until(ENDED, pids)
    jobs.append(await worker_processes.client.enqueue(sample_jobs.make()))
    await worker_processes.until_over()
    assert await worker_processes.effects() == dict.fromkeys(jobs, 1)
    assert await worker_processes.charged() == 0
    assert hand.running
    assert (
        await worker_processes.connection.fetchval("select count(*) from penstock.workers where gone_at is not null")
        == 0
    )
