"""Only the present attempt of the present owner may write."""

from datetime import timedelta

import pytest

from penstock.engine.chores import sql as chores_sql
from penstock.engine.context import Context
from penstock.engine.job import Job
from penstock.engine.outcome import Bury, Cancelled, Done, Failure, Outcome, Release, Retry, Snooze
from penstock.engine.settler import Settler, sql
from penstock.errors import LeaseLost
from tests.engine.conftest import Shop, nothing

failure = Failure("Transient", "ValueError", "no", "trace", "f00")
OUTCOMES = [
    Done("1"),
    Cancelled(),
    Retry(failure, timedelta(seconds=1)),
    Snooze(failure, timedelta(seconds=1)),
    Bury(failure),
    Release(),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_a_rescued_worker_cannot_settle(shop: Shop, outcome: Outcome) -> None:
    [number] = await shop.enqueue()
    frozen, healthy = await shop.worker(), await shop.worker()
    [stale] = await shop.claim(frozen)
    await shop.lose(frozen)
    assert await shop.claim_suspect(healthy) is not None
    before = await shop.find(number)

    assert await shop.settle(frozen, (stale, outcome)) == set()
    assert await shop.find(number) == before
    assert before["attempt"] == 2


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_a_released_attempt_cannot_settle(shop: Shop, outcome: Outcome) -> None:
    """The attempt number is still the same after a release: the missing owner is what refuses it."""
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    assert await shop.settle(worker, (job, Release())) == {number}
    before = await shop.find(number)
    assert await shop.settle(worker, (job, outcome)) == set()
    assert await shop.find(number) == before


async def test_a_second_attempt_of_the_same_worker_is_another_one(shop: Shop) -> None:
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [first] = await shop.claim(worker)
    await shop.settle(worker, (first, Release()))
    [second] = await shop.claim(worker)
    assert await shop.settle(worker, (first, Done())) == set()
    assert await shop.settle(worker, (second, Done())) == {number}


def context_of(shop: Shop, worker_id: int, job: Job) -> Context:
    return shop.context(job, worker_id)


async def test_a_stale_finish_writes_nothing(shop: Shop) -> None:
    await shop.run("create table penstock.effects (n int)")
    await shop.enqueue()
    frozen = await shop.worker()
    [stale] = await shop.claim(frozen)
    await shop.lose(frozen)
    with pytest.raises(LeaseLost):
        async with context_of(shop, frozen, stale).finish() as tx:
            await tx.execute("insert into penstock.effects values (1)")
    assert await shop.run("select * from penstock.effects") == []


async def test_a_write_on_the_way_shows_the_fence_and_is_not_the_end(shop: Shop) -> None:
    await shop.run("create table penstock.effects (n int)")
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    context = context_of(shop, worker, job)
    for n in (1, 2):
        async with context.write() as tx:
            await tx.execute("insert into penstock.effects values ($1)", n)
    assert [row["n"] for row in await shop.run("select n from penstock.effects order by n")] == [1, 2]
    assert await shop.state(number) == "running"

    await shop.lose(worker)
    with pytest.raises(LeaseLost):
        async with context.write() as tx:
            await tx.execute("insert into penstock.effects values (3)")
    assert len(await shop.run("select n from penstock.effects")) == 2


async def test_a_finish_commits_effect_and_completion_together(shop: Shop) -> None:
    await shop.run("create table penstock.effects (n int)")
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    with pytest.raises(ZeroDivisionError):
        async with context_of(shop, worker, job).finish() as tx:
            await tx.execute("insert into penstock.effects values (1)")
            raise ZeroDivisionError
    assert await shop.run("select * from penstock.effects") == []
    assert await shop.state(number) == "running"

    context = context_of(shop, worker, job)
    async with context.finish(result={"n": 2}) as tx:
        await tx.execute("insert into penstock.effects values (2)")
    assert [row["n"] for row in await shop.run("select n from penstock.effects")] == [2]
    row = await shop.find(number)
    assert (row["state"], row["result"]) == ("done", '{"n": 2}')
    with pytest.raises(RuntimeError, match="finished already"):
        async with context.finish():
            pytest.fail("twice")


async def test_a_rescue_cannot_come_between_the_fence_and_the_finish(shop: Shop) -> None:
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    async with context_of(shop, worker, job).finish():
        await shop.run("update penstock.workers set beat_at = beat_at - interval '1 hour'")
        assert await shop.look() == [worker]
        taken = await shop.run_statement(chores_sql.rescue_jobs, gone_id=worker, bite=10, deaths_allowed=2)
        assert taken == [], "the row is locked by the finish"
    assert await shop.state(number) == "done"


async def test_a_worker_that_was_declared_gone_claims_nothing(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.lose(worker)
    await shop.enqueue()
    assert await shop.claim(worker) == []
    assert await shop.beat(worker) is None


async def test_progress_of_a_stale_attempt_is_not_shown(shop: Shop) -> None:
    [number] = await shop.enqueue()
    frozen, healthy = await shop.worker(), await shop.worker()
    [stale] = await shop.claim(frozen)
    settler = Settler(shop.database.pool, frozen)
    settler.note_progress(stale, '{"done": 1}')
    await settler._flush([], settler._progress, again=False)
    assert (await shop.find(number))["progress"] == '{"done": 1}'
    await shop.lose(frozen)
    await shop.claim_suspect(healthy)
    await settler._flush([], settler._progress, again=False)
    assert (await shop.find(number))["progress"] is None


async def test_settling_again_after_a_lost_answer_is_known_to_be_ours(shop: Shop) -> None:
    """Three answers: mine, already mine, lost. The second is what a COMMIT without an answer leaves."""
    numbers = await shop.enqueue(nothing(), nothing(), nothing())
    worker, other = await shop.worker(), await shop.worker()
    jobs = await shop.claim(worker)
    await shop.settle(worker, (jobs[0], Done()))
    await shop.settle(worker, (jobs[1], Retry(failure, timedelta(seconds=1))))
    assert await shop.settle(worker, (jobs[0], Done()), (jobs[1], Done())) == set()
    async with shop.database.pool.session() as session:
        ids, attempts = [job.id for job in jobs], [job.attempt for job in jobs]
        before = await sql.settled_before(session, ids=ids, attempts=attempts, worker_id=worker)
        assert {row["id"] for row in before} == set(numbers[:2])
        assert await sql.settled_before(session, ids=ids, attempts=attempts, worker_id=other) == []
