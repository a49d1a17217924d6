"""What nobody waits for goes, in batches; what somebody may still need stays."""

from collections.abc import AsyncIterator

import pytest

from penstock.database import Session
from penstock.engine.maintenance import Sweeper
from penstock.settings import Settings
from penstock.settings.settings import EngineSettings
from tests.engine.conftest import JobQueue

DAY = 24 * 3600
CHECKPOINT = """
insert into penstock.checkpoints (scope, step, version, digest, job_id, own, format, content, seconds)
select $1, 'step ' || n, 1, '', $2, $3, 'json', 'x', 1 from generate_series(1, $4) as n
"""


@pytest.fixture
async def session(job_queue: JobQueue) -> AsyncIterator[Session]:
    own = await job_queue.database.direct("test")
    yield own
    own.terminate()


async def scopes(job_queue: JobQueue) -> list[str]:
    return [row[0] for row in await job_queue.run("select distinct scope from penstock.checkpoints order by scope")]


async def test_steps_go_with_their_job(job_queue: JobQueue, session: Session, settings: Settings) -> None:
    alive, dead, over = await job_queue.enqueue() + await job_queue.enqueue() + await job_queue.enqueue()
    await job_queue.run("update penstock.jobs set state = 'dead', error = '{}', fingerprint = 'f' where id = $1", dead)
    await job_queue.run("delete from penstock.jobs where id = $1", over)
    for name, job in (("alive", alive), ("dead", dead), ("over", over)):
        await job_queue.run(CHECKPOINT, name, job, True, 3)
    assert not await Sweeper(settings).sweep(session)
    assert await scopes(job_queue) == ["alive", "dead"], "a dead letter resumes when it is redriven"


async def test_a_pass_goes_on_where_it_stopped(job_queue: JobQueue, session: Session, settings: Settings) -> None:
    """Many live jobs with many steps in front do not hide those behind them, and are not walked in one go."""
    jobs = [job for _ in range(6) for job in await job_queue.enqueue()]
    for job in jobs:
        await job_queue.run(CHECKPOINT, f"job {job}", job, True, 2)
    await job_queue.run("delete from penstock.jobs where id = $1", jobs[-1])
    sweeper = Sweeper(settings, batch=4)
    assert [await sweeper.sweep(session) for _ in range(4)] == [True, True, True, False]
    assert await scopes(job_queue) == sorted(f"job {job}" for job in jobs[:-1])
    assert await sweeper.sweep(session), "and it begins anew"


async def test_steps_of_a_shared_scope_go_by_age(job_queue: JobQueue, session: Session, settings: Settings) -> None:
    await job_queue.run(CHECKPOINT, "old", 1, False, 3)
    await job_queue.advance(6 * DAY)
    await job_queue.run(CHECKPOINT, "young", 2, False, 1)
    sweeper = Sweeper(settings, batch=2)
    assert not await sweeper.sweep(session)
    await job_queue.advance(2 * DAY)
    assert await sweeper.sweep(session), "a batch was not enough"
    assert not await sweeper.sweep(session)
    assert await scopes(job_queue) == ["young"]


async def test_the_settings_say_how_long(job_queue: JobQueue, session: Session, settings: Settings) -> None:
    await job_queue.run(CHECKPOINT, "scope", 1, False, 1)
    await job_queue.advance(120)
    kept = EngineSettings.model_validate({"checkpoints_kept": "1m"})
    await Sweeper(settings).sweep(session)
    assert await scopes(job_queue) == ["scope"]
    await Sweeper(settings.model_copy(update={"engine": kept})).sweep(session)
    assert await scopes(job_queue) == []


async def test_expired_keys_go(job_queue: JobQueue, session: Session, settings: Settings) -> None:
    for key, until in (("expired", "-1 s"), ("kept", "1 h")):
        await job_queue.run(
            "insert into penstock.job_keys values ($1, 1, penstock.now() + $2::text::interval)", key, until
        )
    await job_queue.enqueue(unique="taken")
    await Sweeper(settings).sweep(session)
    assert [row[0] for row in await job_queue.run("select key from penstock.job_keys order by key")] == [
        "kept",
        "taken",
    ]


async def test_workers_that_are_long_gone_go(job_queue: JobQueue, session: Session, settings: Settings) -> None:
    gone, alive = await job_queue.worker(), await job_queue.worker(lease=100 * DAY)
    await job_queue.lose(gone)
    await job_queue.advance(8 * DAY)
    await Sweeper(settings).sweep(session)
    assert [row[0] for row in await job_queue.run("select id from penstock.workers")] == [alive]
