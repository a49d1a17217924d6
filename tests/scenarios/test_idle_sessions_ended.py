"""The server ends sessions that are idle for a while (`idle_session_timeout`): nobody notices but the server."""

from tests.scenarios import workshop
from tests.scenarios.crew import Crew

OWN = """
select array_agg(pid) from pg_stat_activity
where datname = current_database() and application_name like 'penstock-workshop%:' || $1::text
"""
ENDED = "select not exists (select from pg_stat_activity where pid = any ($1::int[]))"


async def test_a_worker_goes_on_after_its_idle_sessions_were_ended(crew: Crew) -> None:
    name = await crew.connection.fetchval("select current_database()")
    # of those that come from now on
    await crew.connection.execute(f"alter database {name} set idle_session_timeout = '1500ms'")
    hand = await crew.hire()
    jobs = []
    for _ in range(2):
        jobs.append(await crew.client.enqueue(workshop.make()))
        await crew.until_over()
        pids = await crew.connection.fetchval(OWN, str(hand.pid))
        await crew.until(ENDED, pids)
    jobs.append(await crew.client.enqueue(workshop.make()))
    await crew.until_over()
    assert await crew.effects() == dict.fromkeys(jobs, 1)
    assert await crew.charged() == 0
    assert hand.running
    assert await crew.connection.fetchval("select count(*) from penstock.workers where gone_at is not null") == 0
