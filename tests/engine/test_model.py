"""The queue against a model of it: random histories of claims, outcomes, losses, cancels and pauses.

The model is a dictionary. After every step each job must be in the table or in the history, once, in the state that the
model says, and every claim must have taken only what it may take, and all of it.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from penstock.database import open_database
from penstock.engine.inspect.dead_letters import sql as redrive_sql
from penstock.engine.job import Cancelled, Dead, Done, Failure, Job, Outcome, Requeue, Retry, Snooze
from penstock.engine.maintenance import DEATHS_ALLOWED
from penstock.engine.queue import sql as queue_sql
from penstock.settings import PoolSettings, Settings
from tests.conftest import fresh_database
from tests.engine.conftest import JobQueue
from tests.slow import examples

T = TypeVar("T")
failure = Failure("Transient", "ValueError", "no", "trace", "f00")
OUTCOMES: dict[str, Outcome] = {
    "done": Done(),
    "retry": Retry(failure, timedelta(seconds=10)),
    "snooze": Snooze(failure, timedelta(seconds=10)),
    "alone": Retry(failure, timedelta(seconds=10), alone=True),
    "dead": Dead(failure),
    "requeue": Requeue(),
    "cancelled": Cancelled(),
}
AFTER = {"done": "done", "retry": "later", "snooze": "later", "alone": "later", "dead": "dead", "requeue": "ready"}
AFTER["cancelled"] = "cancelled"
SHARES = ("a", "b", "c")


@dataclass
class Row:
    """What the model knows of a job."""

    fairness_key: str
    priority: int
    state: str
    due: float | None
    key: str | None
    attempt: int = 0
    failures: int = 0
    quarantined: bool = False
    deaths: int = 0
    cancelling: bool = False
    owner: int | None = None

    @property
    def alive(self) -> bool:
        return self.state not in ("done", "cancelled")


@dataclass
class Model:
    jobs: dict[int, Row] = field(default_factory=dict)
    workers: set[int] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    claims: list[tuple[int, Job]] = field(default_factory=list)  # every claim ever made: the stale ones, too
    now: float = 0.0


class QueueMachine(RuleBasedStateMachine):
    """Hypothesis chooses the steps."""

    runner: asyncio.Runner
    job_queue: JobQueue

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.run(
            self.job_queue.run(
                "truncate penstock.jobs, penstock.job_history, penstock.job_keys, penstock.workers, penstock.pauses"
            )
        )
        self.run(self.job_queue.run("update penstock.test_clock set shift = '0'"))
        self.job_queue.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @rule(fairness_key=st.sampled_from(SHARES), priority=st.integers(-1, 1), delay=st.sampled_from([None, 5, 50]))
    def enqueue(self, fairness_key: str, priority: int, delay: float | None) -> None:
        after = None if delay is None else timedelta(seconds=delay)
        [number] = self.run(self.job_queue.enqueue(fairness_key=fairness_key, priority=priority, delay=after))
        due = None if delay is None else self.model.now + delay
        self.model.jobs[number] = Row(fairness_key, priority, "ready" if delay is None else "later", due, None)

    @rule(key=st.sampled_from(["k1", "k2"]))
    def enqueue_unique(self, key: str) -> None:
        holder = [number for number, row in self.model.jobs.items() if row.key == key and row.alive]
        [number] = self.run(self.job_queue.enqueue(unique=key, fairness_key="a"))
        assert number.created == (not holder)
        if holder:
            assert [number] == holder
        else:
            self.model.jobs[number] = Row("a", 0, "ready", None, key)

    @precondition(lambda self: len(self.model.workers) < 3)
    @rule()
    def join(self) -> None:
        self.model.workers.add(self.run(self.job_queue.worker()))

    def claimable(self) -> list[int]:
        return [
            number
            for number, row in self.model.jobs.items()
            if row.state == "ready" and not row.quarantined and row.fairness_key not in self.model.paused
        ]

    def claimed(self, worker: int, jobs: list[Job]) -> None:
        for job in jobs:
            row = self.model.jobs[job.id]
            row.state, row.owner, row.attempt = "running", worker, row.attempt + 1
            assert job.attempt == row.attempt
            self.model.claims.append((worker, job))

    @precondition(lambda self: self.model.workers)
    @rule(data=st.data(), slots=st.integers(1, 5), fresh=st.booleans())
    def claim(self, data: st.DataObject, slots: int, fresh: bool) -> None:
        """A list of active lanes is used for 0.2 s, and after a rest the known lanes are tried first; a better band that
        comes in meanwhile waits for so long at most, or for the next claim.
        """
        worker = data.draw(st.sampled_from(sorted(self.model.workers)))
        if fresh:
            self.job_queue.claimers[worker]._active_until = 0.0
            self.job_queue.claimers[worker]._was_idle = False
        may = self.claimable()
        jobs = self.run(self.job_queue.claim(worker, slots))
        assert {job.id for job in jobs} <= set(may)
        assert len(jobs) == min(slots, len(may)), "all that may be taken is taken"
        if fresh:
            best = sorted(self.model.jobs[number].priority for number in may)
            assert sorted(self.model.jobs[job.id].priority for job in jobs) == best[: len(jobs)], "best band first"
        self.claimed(worker, jobs)

    @precondition(lambda self: self.model.workers)
    @rule(data=st.data())
    def claim_quarantined(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.model.workers)))
        rows = self.model.jobs.values()
        busy = any(row.state == "running" and row.owner == worker and row.quarantined for row in rows)
        may = {
            n
            for n, row in self.model.jobs.items()
            if row.state == "ready" and row.quarantined and row.fairness_key not in self.model.paused
        }
        job = self.run(self.job_queue.claim_quarantined(worker))
        assert (job is not None) == (bool(may) and not busy)
        if job is not None:
            assert job.id in may
            self.claimed(worker, [job])

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data(), how=st.sampled_from(sorted(OUTCOMES)))
    def settle(self, data: st.DataObject, how: str) -> None:
        """Also for attempts that are long over: those must change nothing."""
        worker, job = data.draw(st.sampled_from(self.model.claims))
        row = self.model.jobs[job.id]
        ours = row.state == "running" and row.owner == worker and row.attempt == job.attempt
        assert self.run(self.job_queue.settle(worker, (job, OUTCOMES[how]))) == ({job.id} if ours else set())
        if ours:
            row.state, row.owner = AFTER[how], None
            row.due = self.model.now + 10 if row.state == "later" else None
            if how in ("retry", "alone", "dead"):
                row.failures += 1
            if how in ("retry", "alone", "dead", "snooze"):
                row.quarantined, row.deaths = how == "alone", 0

    @precondition(lambda self: self.model.workers)
    @rule(data=st.data())
    def lose_worker(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.model.workers)))
        self.run(self.job_queue.lose(worker))
        self.model.workers.discard(worker)
        for row in self.model.jobs.values():
            if row.state == "running" and row.owner == worker:
                row.owner = None
                row.deaths += row.quarantined
                if row.quarantined and row.deaths >= DEATHS_ALLOWED:
                    row.state, row.quarantined = "dead", False
                else:
                    row.state, row.quarantined = ("cancelled" if row.cancelling else "ready"), True

    @precondition(lambda self: any(row.alive for row in self.model.jobs.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([number for number, row in self.model.jobs.items() if row.alive]))
        row = self.model.jobs[number]

        async def ask() -> None:
            async with self.job_queue.database.pool.transaction() as tx:
                await queue_sql.cancel_idle(tx, ids=[number], outcome="cancelled", reason="test")
                await queue_sql.cancel_running(tx, ids=[number])

        self.run(ask())
        if row.state == "running":
            row.cancelling = True
        else:
            row.state, row.due = "cancelled", None

    @rule(seconds=st.sampled_from([1, 11, 60]))
    def advance(self, seconds: float) -> None:
        self.run(self.job_queue.advance(seconds))
        self.run(self.job_queue.promote())
        self.model.now += seconds
        for row in self.model.jobs.values():
            if row.state == "later" and row.due is not None and row.due <= self.model.now:
                row.state, row.due = "ready", None
        # Time also ages the heartbeats; these tests lose workers on purpose only.
        self.run(self.job_queue.run("update penstock.workers set heartbeat_at = penstock.now() where gone_at is null"))

    @rule(fairness_key=st.sampled_from(SHARES))
    def pause_or_resume(self, fairness_key: str) -> None:
        if fairness_key in self.model.paused:
            self.model.paused.discard(fairness_key)
            self.run(self.job_queue.run("delete from penstock.pauses where name = $1", fairness_key))
        else:
            self.model.paused.add(fairness_key)
            self.run(
                self.job_queue.run("insert into penstock.pauses values ('fairness_key', $1, 'test')", fairness_key)
            )

    @rule()
    def redrive(self) -> None:
        dead = [number for number, row in self.model.jobs.items() if row.state == "dead"]

        async def again() -> None:
            async with self.job_queue.database.pool.session() as session:
                await redrive_sql.redrive_jobs(session, ids=dead)

        self.run(again())
        for number in dead:
            row = self.model.jobs[number]
            row.state, row.failures, row.deaths, row.quarantined, row.cancelling = "ready", 0, 0, False, False

    @invariant()
    def table_and_model_agree(self) -> None:
        found = self.run(
            self.job_queue.run(
                "select id, state::text, attempt, failures, quarantined, deaths, worker_id from penstock.jobs "
                "union all select id, outcome, attempt, failures, false, 0, null from penstock.job_history"
            )
        )
        assert len(found) == len(self.model.jobs), "each job is somewhere, and in one place only"
        for row in found:
            model = self.model.jobs[row["id"]]
            assert (row["state"], row["attempt"], row["failures"]) == (model.state, model.attempt, model.failures)
            if model.alive:
                assert (row["quarantined"], row["deaths"], row["worker_id"]) == (
                    model.quarantined,
                    model.deaths,
                    model.owner,
                )


def test_the_queue_and_its_model_agree(request: pytest.FixtureRequest, tmp_path: Any) -> None:
    with asyncio.Runner() as runner:
        fresh = fresh_database(request.config)
        url = runner.run(fresh.__aenter__())
        opening = open_database(Settings(home=tmp_path, database_url=url, pool=PoolSettings(size=2)), role="test")
        database = runner.run(opening.__aenter__())
        try:
            QueueMachine.runner = runner
            QueueMachine.job_queue = JobQueue(database)
            run_state_machine_as_test(
                QueueMachine,
                settings=settings(
                    max_examples=examples(40),
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                    print_blob=True,
                ),
            )
        finally:
            QueueMachine.job_queue.close()
            runner.run(opening.__aexit__(None, None, None))
            runner.run(fresh.__aexit__(None, None, None))
