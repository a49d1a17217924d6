"""The history is kept by day."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from penstock import Penstock
from penstock.database import Session
from penstock.engine.job import Done
from penstock.engine.maintenance import drop_partition, make_partitions, sql, sweep_rest
from penstock.engine.settle import Settlement, Settler
from penstock.errors import JobNotFound
from penstock.settings import Settings
from tests.engine.conftest import JobQueue

DAY = 24 * 3600
KEPT = timedelta(days=14)


@pytest.fixture
async def session(job_queue: JobQueue) -> AsyncIterator[Session]:
    """As the heartbeat has it, past the pool."""
    own = await job_queue.database.direct("test")
    yield own
    own.terminate()


async def finish_one(job_queue: JobQueue, worker: int) -> int:
    [number] = await job_queue.enqueue()
    [job] = await job_queue.claim(worker)
    await job_queue.settle(worker, (job, Done('"kept"')))
    return number


async def days(job_queue: JobQueue) -> int:
    [row] = await job_queue.run(
        "select count(*) from pg_inherits where inhparent = 'penstock.job_history'::regclass "
        "and inhrelid <> 'penstock.job_history_rest'::regclass"
    )
    return int(row[0])


async def test_partitions_are_made_ahead_and_once(job_queue: JobQueue, session: Session) -> None:
    assert await make_partitions(session) == 3
    assert await make_partitions(session) == 0
    await job_queue.advance(DAY)
    assert await make_partitions(session) == 1


async def test_a_finished_job_is_found_in_its_day(job_queue: JobQueue, session: Session) -> None:
    await make_partitions(session)
    number = await finish_one(job_queue, await job_queue.worker())
    [row] = await job_queue.run("select tableoid::regclass::text as place from penstock.job_history")
    assert "job_history_2" in row["place"]
    assert await job_queue.state(number) == "done"


async def test_a_day_that_began_in_the_rest_stays_there(job_queue: JobQueue, session: Session) -> None:
    number = await finish_one(job_queue, await job_queue.worker())
    assert await make_partitions(session) == 2, "only the days to come"
    assert await job_queue.state(number) == "done"


async def test_a_day_is_dropped_when_all_of_it_is_older_than_what_is_kept(
    job_queue: JobQueue, session: Session, settings: Settings
) -> None:
    await make_partitions(session)
    worker = await job_queue.worker(lease=100 * DAY)
    old = await finish_one(job_queue, worker)
    await job_queue.advance(DAY)
    young = await finish_one(job_queue, worker)
    await job_queue.advance(13 * DAY)
    assert not await drop_partition(session, KEPT), "its last second is kept for as long as its first"
    assert await job_queue.state(old) == "done"
    await job_queue.advance(DAY)
    assert await drop_partition(session, KEPT)
    assert not await drop_partition(session, KEPT), "the next day still counts"
    async with Penstock(home=settings.home, database_url=settings.database_url, pool__size=1) as app:
        assert await app.result(young) == "kept"
        with pytest.raises(JobNotFound, match=rf"Job {old} does not exist, or it ended more than 14d ago"):
            await app.result(old)


async def test_old_rows_of_the_rest_go_in_bites(job_queue: JobQueue, session: Session) -> None:
    worker = await job_queue.worker(lease=100 * DAY)
    for _ in range(3):
        await finish_one(job_queue, worker)
    await job_queue.advance(14 * DAY + 60)
    young = await finish_one(job_queue, worker)
    assert [await sweep_rest(session, KEPT, batch=2) for _ in range(3)] == [2, 1, 0]
    [row] = await job_queue.run("select array_agg(id) from penstock.job_history")
    assert row[0] == [young]


async def test_a_long_reader_does_not_stop_the_fleet(job_queue: JobQueue, session: Session) -> None:
    """A dump or a report holds a lock on the history. We give up after 2 s, and do not even try while it goes on."""
    await make_partitions(session)
    await job_queue.advance(16 * DAY)
    before = await days(job_queue)
    reader = await job_queue.database.direct("report")
    async with reader.transaction():
        await reader.fetch("select from penstock.job_history limit 1")
        began = time.monotonic()
        assert not await drop_partition(session, KEPT)
        assert time.monotonic() - began > 1.5
        began = time.monotonic()
        assert not await drop_partition(session, KEPT)
        assert time.monotonic() - began < 1, "no wait at all: who ends a job would queue behind it"
    assert await days(job_queue) == before
    assert await drop_partition(session, KEPT)
    assert await days(job_queue) == before - 1
    reader.terminate()


async def test_an_outcome_on_its_way_while_its_day_gets_a_partition(job_queue: JobQueue) -> None:
    """PostgreSQL refuses the row, which was meant for the partition of the rest; it must not be called the job's fault."""
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    settler = Settler(job_queue.database.pool, worker)
    async with job_queue.database.pool.transaction() as tx:
        today = (await sql.missing_partitions(tx))[0]
        await tx.execute(today["statement"])
        settler.start()
        settler.add(Settlement(job, Done("1"), 0.1))
        blocked = "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database())"
        async with asyncio.timeout(5):
            while not (await job_queue.run(blocked))[0][0]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    await settler.drain()
    await settler.stop()
    assert await job_queue.state(number) == "done"
