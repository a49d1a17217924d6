"""Connections break around a COMMIT, so that its outcome is unknown: every effect happens once, and nothing is stuck."""

import random
from collections.abc import Callable

import pytest

from penstock.settings import DatabaseUrl
from tests.postgres_proxy import Asked, Cut, PostgresProxy
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses


def is_settle(asked: Asked) -> bool:
    """The end of the settler's group commit, or of ctx.finish()."""
    return asked.is_commit and asked.within("insert into penstock.job_history")


def is_claim(asked: Asked) -> bool:
    """It commits by itself: there is no COMMIT to cut."""
    return "set state = 'running'" in asked.statement


class Dice:
    """Cuts some of the statements, before or after they took effect."""

    def __init__(self, seed: int, which: Callable[[Asked], bool], chance: float) -> None:
        self._rng = random.Random(seed)
        self._which = which
        self._chance = chance

    def __call__(self, asked: Asked) -> Cut | None:
        if not self._which(asked) or self._rng.random() > self._chance:
            return None
        return self._rng.choice([Cut.BEFORE, Cut.AFTER])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_every_effect_happens_once(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, seed: int
) -> None:
    """Cuts at the settler's group commit, at ctx.finish() and at the claim, all at random, on two workers."""
    async with PostgresProxy(database_url) as proxy:
        for _ in range(2):
            await worker_processes.start(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        proxy.rule = Dice(seed, lambda asked: asked.is_commit or is_claim(asked), 0.2)
        finishing = await worker_processes.client.enqueue_many([sample_jobs.finish_only() for _ in range(100)])
        returning = await worker_processes.client.enqueue_many([sample_jobs.idle() for _ in range(100)])
        await worker_processes.until_over(within=45)
        await worker_processes.stop()
    print(f"\n{dict(proxy.cuts)}")  # noqa: T201  the measurement

    assert min(proxy.cuts[Cut.BEFORE], proxy.cuts[Cut.AFTER]) >= 5
    assert await worker_processes.effects() == dict.fromkeys(finishing, 1)
    history = await worker_processes.history()
    assert sorted(history) == sorted([*finishing, *returning])
    assert all(tries[-1].outcome == "done" for tries in history.values())
    assert {each.outcome for tries in history.values() for each in tries[:-1]} <= {"snooze", "requeued"}
    assert await worker_processes.charged() == 0


@pytest.mark.parametrize("moment", list(Cut))
async def test_finish_knows_whether_it_has_committed(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, moment: Cut
) -> None:
    async with PostgresProxy(database_url) as proxy:
        worker = await worker_processes.start(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        proxy.rule = once(is_settle, moment)
        job = await worker_processes.client.enqueue(sample_jobs.finish_only())
        await worker_processes.until_over()
        assert proxy.cuts == {moment: 1}
        record = await worker_processes.record(job)
        assert record.outcomes == (["done"] if moment is Cut.AFTER else ["snooze", "done"])
        assert record.failures == 0
        assert await worker_processes.effects() == {job: 1}
        if moment is Cut.AFTER:
            assert not worker.lines("attempt failed")
        await worker_processes.stop()


@pytest.mark.parametrize("moment", list(Cut))
async def test_the_settler_knows_whether_it_has_committed(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, moment: Cut
) -> None:
    async with PostgresProxy(database_url) as proxy:
        worker = await worker_processes.start(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        proxy.rule = once(is_settle, moment)
        job = await worker_processes.client.enqueue(sample_jobs.idle())
        assert await worker_processes.client.result(job, timeout="10s") == 0
        await worker.until("outcomes could not be written yet")
        assert proxy.cuts == {moment: 1}
        assert (await worker_processes.record(job)).outcomes == ["done"]
        assert not worker.lines("outcome dropped: the job is not ours any more")
        await worker_processes.stop()


@pytest.mark.parametrize("moment", list(Cut))
async def test_a_claim_without_an_answer_is_given_back(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, moment: Cut
) -> None:
    """What it took is ours by the table, and unknown to us: nobody else may take it, and it must not lie there."""
    async with PostgresProxy(database_url) as proxy:
        await worker_processes.start(PENSTOCK_DATABASE_URL=proxy.url.reveal())
        proxy.rule = once(is_claim, moment)
        job = await worker_processes.client.enqueue(sample_jobs.make())
        await worker_processes.until_over(within=10)
        assert proxy.cuts == {moment: 1}
        record = await worker_processes.record(job)
        assert record.outcomes == (["requeued", "done"] if moment is Cut.AFTER else ["done"])
        assert record.failures == 0
        await worker_processes.stop()


def once(which: Callable[[Asked], bool], moment: Cut) -> Callable[[Asked], Cut | None]:
    left = [moment]
    return lambda asked: left.pop() if left and which(asked) else None
