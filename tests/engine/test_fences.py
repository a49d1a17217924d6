"""Only the present attempt of the present owner may write."""

from datetime import timedelta

import pytest

from penstock.engine.context import Context
from penstock.engine.job import Cancelled, Dead, Done, Failure, Job, Outcome, Requeue, Retry, Snooze
from penstock.engine.maintenance import sql as chores_sql
from penstock.engine.settle import Settler, sql
from penstock.errors import LeaseLost
from tests.engine.conftest import JobQueue, nothing

failure = Failure("Transient", "ValueError", "no", "trace", "f00")
OUTCOMES = [
    Done("1"),
    Cancelled(),
    Retry(failure, timedelta(seconds=1)),
    Snooze(failure, timedelta(seconds=1)),
    Dead(failure),
    Requeue(),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_a_rescued_worker_cannot_settle(job_queue: JobQueue, outcome: Outcome) -> None:
    [number] = await job_queue.enqueue()
    frozen, healthy = await job_queue.worker(), await job_queue.worker()
    [stale] = await job_queue.claim(frozen)
    await job_queue.lose(frozen)
    assert await job_queue.claim_quarantined(healthy) is not None
    before = await job_queue.find(number)

    assert await job_queue.settle(frozen, (stale, outcome)) == set()
    assert await job_queue.find(number) == before
    assert before["attempt"] == 2


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_a_released_attempt_cannot_settle(job_queue: JobQueue, outcome: Outcome) -> None:
    """The attempt number is still the same after a release: the missing owner is what refuses it."""
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    assert await job_queue.settle(worker, (job, Requeue())) == {number}
    before = await job_queue.find(number)
    assert await job_queue.settle(worker, (job, outcome)) == set()
    assert await job_queue.find(number) == before


async def test_a_second_attempt_of_the_same_worker_is_another_one(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [first] = await job_queue.claim(worker)
    await job_queue.settle(worker, (first, Requeue()))
    [second] = await job_queue.claim(worker)
    assert await job_queue.settle(worker, (first, Done())) == set()
    assert await job_queue.settle(worker, (second, Done())) == {number}


def context_of(job_queue: JobQueue, worker_id: int, job: Job) -> Context:
    return job_queue.context(job, worker_id)


async def test_a_stale_finish_writes_nothing(job_queue: JobQueue) -> None:
    await job_queue.run("create table penstock.effects (n int)")
    await job_queue.enqueue()
    frozen = await job_queue.worker()
    [stale] = await job_queue.claim(frozen)
    await job_queue.lose(frozen)
    with pytest.raises(LeaseLost):
        async with context_of(job_queue, frozen, stale).finish() as tx:
            await tx.execute("insert into penstock.effects values (1)")
    assert await job_queue.run("select * from penstock.effects") == []


async def test_a_write_on_the_way_shows_the_fence_and_is_not_the_end(job_queue: JobQueue) -> None:
    await job_queue.run("create table penstock.effects (n int)")
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    context = context_of(job_queue, worker, job)
    for n in (1, 2):
        async with context.write() as tx:
            await tx.execute("insert into penstock.effects values ($1)", n)
    assert [row["n"] for row in await job_queue.run("select n from penstock.effects order by n")] == [1, 2]
    assert await job_queue.state(number) == "running"

    await job_queue.lose(worker)
    with pytest.raises(LeaseLost):
        async with context.write() as tx:
            await tx.execute("insert into penstock.effects values (3)")
    assert len(await job_queue.run("select n from penstock.effects")) == 2


async def test_a_finish_commits_effect_and_completion_together(job_queue: JobQueue) -> None:
    await job_queue.run("create table penstock.effects (n int)")
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    with pytest.raises(ZeroDivisionError):
        async with context_of(job_queue, worker, job).finish() as tx:
            await tx.execute("insert into penstock.effects values (1)")
            raise ZeroDivisionError
    assert await job_queue.run("select * from penstock.effects") == []
    assert await job_queue.state(number) == "running"

    context = context_of(job_queue, worker, job)
    async with context.finish(result={"n": 2}) as tx:
        await tx.execute("insert into penstock.effects values (2)")
    assert [row["n"] for row in await job_queue.run("select n from penstock.effects")] == [2]
    row = await job_queue.find(number)
    assert (row["state"], row["result"]) == ("done", '{"n": 2}')
    with pytest.raises(RuntimeError, match="finished already"):
        async with context.finish():
            pytest.fail("twice")


async def test_a_rescue_cannot_come_between_the_fence_and_the_finish(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    async with context_of(job_queue, worker, job).finish():
        await job_queue.run("update penstock.workers set heartbeat_at = heartbeat_at - interval '1 hour'")
        assert await job_queue.look() == [worker]
        taken = await job_queue.run_statement(chores_sql.rescue_jobs, gone_id=worker, batch=10, deaths_allowed=2)
        assert taken == [], "the row is locked by the finish"
    assert await job_queue.state(number) == "done"


async def test_a_worker_that_was_declared_gone_claims_nothing(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await job_queue.lose(worker)
    await job_queue.enqueue()
    assert await job_queue.claim(worker) == []
    assert await job_queue.heartbeat(worker) is None


async def test_progress_of_a_stale_attempt_is_not_shown(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    frozen, healthy = await job_queue.worker(), await job_queue.worker()
    [stale] = await job_queue.claim(frozen)
    settler = Settler(job_queue.database.pool, frozen)
    settler.note_progress(stale, '{"done": 1}')
    await settler._flush([], settler._progress, again=False)
    assert (await job_queue.find(number))["progress"] == '{"done": 1}'
    await job_queue.lose(frozen)
    await job_queue.claim_quarantined(healthy)
    await settler._flush([], settler._progress, again=False)
    assert (await job_queue.find(number))["progress"] is None


async def test_settling_again_after_a_lost_answer_is_known_to_be_ours(job_queue: JobQueue) -> None:
    """Three answers: mine, already mine, lost. The second is what a COMMIT without an answer leaves."""
    numbers = await job_queue.enqueue(nothing(), nothing(), nothing())
    worker, other = await job_queue.worker(), await job_queue.worker()
    jobs = await job_queue.claim(worker)
    await job_queue.settle(worker, (jobs[0], Done()))
    await job_queue.settle(worker, (jobs[1], Retry(failure, timedelta(seconds=1))))
    assert await job_queue.settle(worker, (jobs[0], Done()), (jobs[1], Done())) == set()
    async with job_queue.database.pool.session() as session:
        ids, attempts = [job.id for job in jobs], [job.attempt for job in jobs]
        before = await sql.settled_before(session, ids=ids, attempts=attempts, worker_id=worker)
        assert {row["id"] for row in before} == set(numbers[:2])
        assert await sql.settled_before(session, ids=ids, attempts=attempts, worker_id=other) == []
