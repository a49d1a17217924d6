"""Who is gone, and what becomes of its jobs."""

import json

from penstock.database import Database
from penstock.engine.chores import DEATHS_ALLOWED
from penstock.engine.chores import sql as chores_sql
from penstock.engine.fleet import sql
from penstock.engine.outcome import Done
from tests.engine.conftest import Shop, make_kind, nothing
from tests.waiting import until


async def hold_lock(database: Database, worker_id: int) -> "object":
    session = await database.direct("beat")
    assert await sql.hold_lock.value(session, worker_id=worker_id)
    return session


async def test_a_worker_with_a_lock_and_a_beat_is_left_alone(shop: Shop) -> None:
    worker = await shop.worker()
    session = await hold_lock(shop.database, worker)
    assert await shop.look() == []
    await shop.advance(1)
    assert await shop.look() == []
    session.terminate()  # type: ignore[attr-defined]


async def test_a_missing_lock_is_believed_at_the_second_look(shop: Shop) -> None:
    worker = await shop.worker()
    assert await shop.look() == [], "one look proves nothing"
    await shop.advance(0.3)
    assert await shop.look() == [], "nor two that are close together"
    await shop.advance(0.3)
    assert await shop.look() == [worker]


async def test_a_beat_in_between_forgives(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.look()
    await shop.advance(0.6)
    await shop.beat(worker)
    assert await shop.look() == [], "it lost its connection, and lives"
    await shop.advance(0.6)
    assert await shop.look() == [worker]


async def test_a_restarted_server_has_no_locks_and_means_nothing(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.look()
    await shop.run("update penstock.workers set unlocked_at_server = unlocked_at_server - interval '1 hour'")
    await shop.advance(0.6)
    assert await shop.look() == [], "the first look was at another server"
    await shop.advance(0.6)
    assert await shop.look() == [worker]


async def test_a_lock_that_is_back_forgives(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.look()
    session = await hold_lock(shop.database, worker)
    await shop.advance(0.6)
    assert await shop.look() == []
    [row] = await shop.run("select unlocked_at from penstock.workers where id = $1", worker)
    assert row["unlocked_at"] is None
    session.terminate()  # type: ignore[attr-defined]


async def test_a_silent_worker_keeps_its_jobs_until_its_lease_ends(shop: Shop) -> None:
    worker = await shop.worker(lease=15)
    session = await hold_lock(shop.database, worker)
    await shop.enqueue()
    await shop.claim(worker)
    await shop.advance(14)
    assert await shop.look() == [], "age alone is no reason"
    await shop.advance(2)
    assert await shop.look() == [worker]
    session.terminate()  # type: ignore[attr-defined]


async def test_nobody_declares_itself_gone(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.advance(100)
    assert await shop.look(worker) == []


async def test_jobs_of_a_lost_worker_are_suspects_and_not_charged(shop: Shop) -> None:
    numbers = await shop.enqueue(*(nothing(n=n) for n in range(30)))
    worker, other = await shop.worker(), await shop.worker()
    await shop.claim(worker, slots=30)
    await shop.lose(worker)
    rows = await shop.run("select state::text, suspect, failures, deaths from penstock.jobs")
    assert {tuple(row) for row in rows} == {("ready", True, 0, 0)}
    assert await shop.claim(other, slots=30) == [], "suspects run one at a time"
    first = await shop.claim_suspect(other)
    assert first is not None
    assert await shop.claim_suspect(other) is None
    await shop.settle(other, (first, Done()))
    assert await shop.claim_suspect(other) is not None
    assert first.id == numbers[0]


async def test_two_lonely_deaths_make_a_job_dead(shop: Shop) -> None:
    [number] = await shop.enqueue()
    first = await shop.worker()
    await shop.claim(first)
    await shop.lose(first)
    for death in range(DEATHS_ALLOWED):
        assert await shop.state(number) == "ready", death
        worker = await shop.worker()
        assert await shop.claim_suspect(worker) is not None
        await shop.lose(worker)
    row = await shop.find(number)
    assert row["state"] == "dead"
    assert json.loads(row["error"])["class"] == "Poison"
    assert row["failures"] == 0
    assert [attempt["outcome"] for attempt in json.loads(row["attempts"])] == ["lost", "lost", "lost"]


async def test_a_suspect_that_ends_well_is_acquitted(shop: Shop) -> None:
    [number] = await shop.enqueue()
    first, second = await shop.worker(), await shop.worker()
    await shop.claim(first)
    await shop.lose(first)
    job = await shop.claim_suspect(second)
    assert job is not None
    assert await shop.settle(second, (job, Done())) == {number}
    assert await shop.state(number) == "done"


async def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(shop: Shop) -> None:
    [number] = await shop.enqueue(unique="k")
    worker = await shop.worker()
    await shop.claim(worker)
    await shop.run("update penstock.jobs set cancelling = true")
    await shop.lose(worker)
    assert await shop.state(number) == "cancelled"
    assert (await shop.enqueue(unique="k"))[0].created


async def test_a_beat_brings_the_wish_to_cancel(shop: Shop) -> None:
    [number] = await shop.enqueue()
    worker, other = await shop.worker(), await shop.worker()
    await shop.claim(worker)
    await shop.run("update penstock.jobs set cancelling = true")
    beat = await shop.beat(worker)
    assert beat is not None
    assert [json.loads(text) for text in beat["cancelling"]] == [{"id": number, "attempt": 1}]
    beat = await shop.beat(other)
    assert beat is not None
    assert beat["cancelling"] == []


async def test_a_worker_that_owns_something_cannot_leave(shop: Shop) -> None:
    await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    async with shop.database.pool.session() as session:
        assert await sql.leave.value(session, worker_id=worker) is None
    await shop.settle(worker, (job, Done()))
    async with shop.database.pool.session() as session:
        assert await sql.leave.value(session, worker_id=worker) == worker


async def test_what_a_claim_took_without_an_answer_is_given_back(shop: Shop) -> None:
    numbers = await shop.enqueue(nothing(n=1), nothing(n=2), nothing(n=3))
    worker = await shop.worker()
    jobs = await shop.claim(worker)
    assert await shop.claimers[worker].owned() == {(number, 1) for number in numbers}
    assert await shop.claimers[worker].release_unknown([job.id for job in jobs[1:]]) == 2
    assert [await shop.state(number) for number in numbers] == ["running", "ready", "ready"]
    assert len(await shop.claim(worker)) == 2


async def test_suspects_that_nobody_serves_do_not_hide_the_others(shop: Shop) -> None:
    strange = make_kind("strange")
    await shop.enqueue(*(strange(n=n) for n in range(120)))
    [served] = await shop.enqueue()
    await shop.run("update penstock.jobs set suspect = true")
    worker = await shop.worker(nothing)
    job = await shop.claim_suspect(worker)
    assert job is not None
    assert job.id == served


async def declare(shop: Shop) -> list[int]:
    """The second look alone, as it comes to a worker whose first look was before all that happened since."""
    async with shop.database.pool.session() as session:
        return [row["id"] for row in await chores_sql.declare_gone(session, worker_id=0)]


async def test_a_beat_between_the_two_looks_counts_at_the_second(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.look()
    await shop.advance(0.6)
    await shop.beat(worker)
    assert await declare(shop) == []
    await shop.run("update penstock.workers set unlocked_at_beat = beat_at")
    assert await declare(shop) == [worker]


async def test_a_restart_between_the_two_looks_counts_at_the_second(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.look()
    await shop.advance(0.6)
    await shop.run("update penstock.workers set unlocked_at_server = unlocked_at_server - interval '1 hour'")
    assert await declare(shop) == []
    await shop.run("update penstock.workers set unlocked_at_server = pg_postmaster_start_time()")
    assert await declare(shop) == [worker]


async def test_a_frozen_worker_in_a_transaction_loses_its_session(shop: Shop) -> None:
    """Its lock would keep its job from being rescued for as long as it is frozen: no timeout of the server applies."""
    [number] = await shop.enqueue()
    worker, other = await shop.worker(), await shop.worker()
    await shop.claim(worker)
    frozen = await shop.database.direct("frozen")
    young = await shop.database.direct("young")
    await frozen.execute("begin")
    await frozen.execute("select from penstock.jobs for update")
    await shop.run("update penstock.workers set beat_at = beat_at - interval '1 hour' where id = $1", worker)
    assert await shop.look() == [worker]
    await young.execute("begin; select 1")
    await shop.rescue(worker)
    assert await shop.state(number) == "running", "it was locked"
    await until(frozen.is_closed)
    await shop.rescue(worker)
    assert await shop.state(number) == "ready"
    assert await young.fetchval("select 1") == 1, "of the same process, and begun after its return"
    assert await shop.claim_suspect(other) is not None
    young.terminate()
