"""Who is gone, and what becomes of its jobs."""

import json

from penstock.database import Database
from penstock.engine.fleet import sql
from penstock.engine.job import Done
from penstock.engine.maintenance import DEATHS_ALLOWED
from penstock.engine.maintenance import sql as chores_sql
from tests.engine.conftest import JobQueue, make_kind, nothing
from tests.polling import until


async def hold_lock(database: Database, worker_id: int) -> "object":
    session = await database.direct("heartbeat")
    assert await sql.hold_lock.value(session, worker_id=worker_id)
    return session


async def test_a_worker_with_a_lock_and_a_beat_is_left_alone(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    session = await hold_lock(job_queue.database, worker)
    assert await job_queue.look() == []
    await job_queue.advance(1)
    assert await job_queue.look() == []
    session.terminate()  # type: ignore[attr-defined]


async def test_a_missing_lock_is_believed_at_the_second_look(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    assert await job_queue.look() == [], "one look proves nothing"
    await job_queue.advance(0.3)
    assert await job_queue.look() == [], "nor two that are close together"
    await job_queue.advance(0.3)
    assert await job_queue.look() == [worker]


async def test_a_beat_in_between_forgives(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.look()
    await job_queue.advance(0.6)
    await job_queue.heartbeat(worker)
    assert await job_queue.look() == [], "it lost its connection, and lives"
    await job_queue.advance(0.6)
    assert await job_queue.look() == [worker]


async def test_a_restarted_server_has_no_locks_and_means_nothing(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.look()
    await job_queue.run("update penstock.workers set unlocked_at_server = unlocked_at_server - interval '1 hour'")
    await job_queue.advance(0.6)
    assert await job_queue.look() == [], "the first look was at another server"
    await job_queue.advance(0.6)
    assert await job_queue.look() == [worker]


async def test_a_lock_that_is_back_forgives(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.look()
    session = await hold_lock(job_queue.database, worker)
    await job_queue.advance(0.6)
    assert await job_queue.look() == []
    [row] = await job_queue.run("select unlocked_at from penstock.workers where id = $1", worker)
    assert row["unlocked_at"] is None
    session.terminate()  # type: ignore[attr-defined]


async def test_a_silent_worker_keeps_its_jobs_until_its_lease_ends(job_queue: JobQueue) -> None:
    worker = await job_queue.worker(lease=15)
    session = await hold_lock(job_queue.database, worker)
    await job_queue.enqueue()
    await job_queue.claim(worker)
    await job_queue.advance(14)
    assert await job_queue.look() == [], "age alone is no reason"
    await job_queue.advance(2)
    assert await job_queue.look() == [worker]
    session.terminate()  # type: ignore[attr-defined]


async def test_nobody_declares_itself_gone(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.advance(100)
    assert await job_queue.look(worker) == []


async def test_jobs_of_a_lost_worker_are_quarantined_and_not_charged(job_queue: JobQueue) -> None:
    numbers = await job_queue.enqueue(*(nothing(n=n) for n in range(30)))
    worker, other = await job_queue.worker(), await job_queue.worker()
    await job_queue.claim(worker, slots=30)
    await job_queue.lose(worker)
    rows = await job_queue.run("select state::text, quarantined, failures, deaths from penstock.jobs")
    assert {tuple(row) for row in rows} == {("ready", True, 0, 0)}
    assert await job_queue.claim(other, slots=30) == [], "quarantined run one at a time"
    first = await job_queue.claim_quarantined(other)
    assert first is not None
    assert await job_queue.claim_quarantined(other) is None
    await job_queue.settle(other, (first, Done()))
    assert await job_queue.claim_quarantined(other) is not None
    assert first.id == numbers[0]


async def test_two_lonely_deaths_make_a_job_dead(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    first = await job_queue.worker()
    await job_queue.claim(first)
    await job_queue.lose(first)
    for death in range(DEATHS_ALLOWED):
        assert await job_queue.state(number) == "ready", death
        worker = await job_queue.worker()
        assert await job_queue.claim_quarantined(worker) is not None
        await job_queue.lose(worker)
    row = await job_queue.find(number)
    assert row["state"] == "dead"
    assert json.loads(row["error"])["class"] == "Poison"
    assert row["failures"] == 0
    assert [attempt["outcome"] for attempt in json.loads(row["attempts"])] == ["lost", "lost", "lost"]


async def test_a_quarantined_job_that_ends_well_is_acquitted(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    first, second = await job_queue.worker(), await job_queue.worker()
    await job_queue.claim(first)
    await job_queue.lose(first)
    job = await job_queue.claim_quarantined(second)
    assert job is not None
    assert await job_queue.settle(second, (job, Done())) == {number}
    assert await job_queue.state(number) == "done"


async def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue(unique="k")
    worker = await job_queue.worker()
    await job_queue.claim(worker)
    await job_queue.run("update penstock.jobs set cancelling = true")
    await job_queue.lose(worker)
    assert await job_queue.state(number) == "cancelled"
    assert (await job_queue.enqueue(unique="k"))[0].created


async def test_a_beat_brings_the_wish_to_cancel(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    worker, other = await job_queue.worker(), await job_queue.worker()
    await job_queue.claim(worker)
    await job_queue.run("update penstock.jobs set cancelling = true")
    heartbeat = await job_queue.heartbeat(worker)
    assert heartbeat is not None
    assert [json.loads(text) for text in heartbeat["cancelling"]] == [{"id": number, "attempt": 1}]
    heartbeat = await job_queue.heartbeat(other)
    assert heartbeat is not None
    assert heartbeat["cancelling"] == []


async def test_a_worker_that_owns_something_cannot_leave(job_queue: JobQueue) -> None:
    await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    async with job_queue.database.pool.session() as session:
        assert await sql.leave.value(session, worker_id=worker) is None
    await job_queue.settle(worker, (job, Done()))
    async with job_queue.database.pool.session() as session:
        assert await sql.leave.value(session, worker_id=worker) == worker


async def test_what_a_claim_took_without_an_answer_is_given_back(job_queue: JobQueue) -> None:
    numbers = await job_queue.enqueue(nothing(n=1), nothing(n=2), nothing(n=3))
    worker = await job_queue.worker()
    jobs = await job_queue.claim(worker)
    assert await job_queue.claimers[worker].owned() == {(number, 1) for number in numbers}
    assert await job_queue.claimers[worker].requeue_unknown([job.id for job in jobs[1:]]) == 2
    assert [await job_queue.state(number) for number in numbers] == ["running", "ready", "ready"]
    assert len(await job_queue.claim(worker)) == 2


async def test_quarantined_jobs_that_nobody_serves_do_not_hide_the_others(job_queue: JobQueue) -> None:
    strange = make_kind("strange")
    await job_queue.enqueue(*(strange(n=n) for n in range(120)))
    [served] = await job_queue.enqueue()
    await job_queue.run("update penstock.jobs set quarantined = true")
    worker = await job_queue.worker(nothing)
    job = await job_queue.claim_quarantined(worker)
    assert job is not None
    assert job.id == served


async def declare(job_queue: JobQueue) -> list[int]:
    """The second look alone, as it comes to a worker whose first look was before all that happened since."""
    async with job_queue.database.pool.session() as session:
        return [row["id"] for row in await chores_sql.declare_gone(session, worker_id=0)]


async def test_a_beat_between_the_two_looks_counts_at_the_second(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.look()
    await job_queue.advance(0.6)
    await job_queue.heartbeat(worker)
    assert await declare(job_queue) == []
    await job_queue.run("update penstock.workers set unlocked_at_heartbeat = heartbeat_at")
    assert await declare(job_queue) == [worker]


async def test_a_restart_between_the_two_looks_counts_at_the_second(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.look()
    await job_queue.advance(0.6)
    await job_queue.run("update penstock.workers set unlocked_at_server = unlocked_at_server - interval '1 hour'")
    assert await declare(job_queue) == []
    await job_queue.run("update penstock.workers set unlocked_at_server = pg_postmaster_start_time()")
    assert await declare(job_queue) == [worker]


async def test_a_frozen_worker_in_a_transaction_loses_its_session(job_queue: JobQueue) -> None:
    """Its lock would keep its job from being rescued for as long as it is frozen: no timeout of the server applies."""
    [number] = await job_queue.enqueue()
    worker, other = await job_queue.worker(), await job_queue.worker()
    await job_queue.claim(worker)
    frozen = await job_queue.database.direct("frozen")
    young = await job_queue.database.direct("young")
    await frozen.execute("begin")
    await frozen.execute("select from penstock.jobs for update")
    await job_queue.run(
        "update penstock.workers set heartbeat_at = heartbeat_at - interval '1 hour' where id = $1", worker
    )
    assert await job_queue.look() == [worker]
    await young.execute("begin; select 1")
    await job_queue.rescue(worker)
    assert await job_queue.state(number) == "running", "it was locked"
    await until(frozen.is_closed)
    await job_queue.rescue(worker)
    assert await job_queue.state(number) == "ready"
    assert await young.fetchval("select 1") == 1, "of the same process, and begun after its return"
    assert await job_queue.claim_quarantined(other) is not None
    young.terminate()
