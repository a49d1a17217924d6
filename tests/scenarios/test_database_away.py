"""The database cannot be reached for longer than the lease, or refuses to write: workers wait, and nothing is charged."""

import asyncio

from penstock.settings import DatabaseUrl
from tests.postgres_proxy import PostgresProxy
from tests.scenarios import workshop
from tests.scenarios.crew import Crew


async def test_workers_come_back_after_a_long_absence(crew: Crew, database_url: DatabaseUrl) -> None:
    async with PostgresProxy(database_url) as proxy:
        worker = await crew.hire("--lease", "2s", PENSTOCK_DATABASE_URL=proxy.url.reveal())
        running = await crew.client.enqueue(workshop.make_quickly_again(seconds=60))
        await crew.until_begun(running)
        with proxy.refusing():
            await worker.until("the lease could not be renewed: stopping own work")
            await asyncio.sleep(2)  # it wants to join anew, and cannot
            assert worker.running, worker.logged
        late = await crew.client.enqueue(workshop.make())
        await crew.until_over()
        story = await crew.story(running)
        assert (story.outcomes, story.failures) == (["lost", "done"], 0)
        assert await crew.effects() == {running: 1, late: 1}
        await crew.dismiss()


async def test_a_finish_during_an_absence_is_not_charged(crew: Crew, database_url: DatabaseUrl) -> None:
    async with PostgresProxy(database_url) as proxy:
        worker = await crew.hire(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        job = await crew.client.enqueue(workshop.make(seconds=1))
        await crew.until_begun(job)
        with proxy.refusing():
            await worker.until("attempt failed")
        await crew.until_over()
        story = await crew.story(job)
        assert (story.outcomes, story.failures) == (["snooze", "done"], 0)
        assert await crew.effects() == {job: 1}
        await crew.dismiss()


async def test_a_full_disk_buries_nobody(crew: Crew) -> None:
    """The server answers, and cannot write the outcomes: that is not the jobs' fault."""
    worker = await crew.hire()
    await crew.connection.execute("""
        create function no_space() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
        create trigger full_disk before insert on penstock.job_history for each row execute function no_space();
    """)
    one = await crew.client.enqueue(workshop.idle())
    many = await crew.client.enqueue_many([workshop.idle() for _ in range(20)])
    await worker.until("outcomes could not be written yet")
    await crew.until("select count(*) = 21 from penstock.jobs where attempt = 1")
    await crew.connection.execute("drop trigger full_disk on penstock.job_history")
    await crew.until_over()
    assert await crew.connection.fetchval("select count(*) from penstock.jobs") == 0  # no dead letters
    assert {job: [each.outcome for each in tries] for job, tries in (await crew.history()).items()} == {
        job: ["done"] for job in [one, *many]
    }
