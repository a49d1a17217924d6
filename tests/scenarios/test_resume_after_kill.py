"""kill -9 in a step or in the middle of a fan-out: what was done stays done, and the rest goes on elsewhere."""

from collections import Counter

import pytest

from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

INVARIANTS = """
select 'count' as broken from penstock.fanouts where unfinished <>
  (select count(*) from penstock.jobs where jobs.fanout = fanouts.id and state <> 'dead')
union all select 'twice' from penstock.job_history group by id having count(*) > 1
union all select 'both' from penstock.jobs join penstock.job_history using (id)
"""


async def test_every_step_resumes(worker_processes: WorkerProcesses) -> None:
    """One job for each step to be killed in; all of them lose their worker at once."""
    first = await worker_processes.start()
    jobs = {
        step: await worker_processes.client.enqueue(sample_jobs.make_in_steps(hang_in=step))
        for step in sample_jobs.STEPS
    }
    for step, job in jobs.items():
        await worker_processes.until("select exists (select from computed where job = $1 and step = $2)", job, step)
    first.kill()
    await worker_processes.start()

    for killed_in, job in jobs.items():
        assert await worker_processes.client.result(job, timeout=30) == ["READ", "DRAW", "BIND", "SEND"]
        rows = await worker_processes.connection.fetch("select step, attempt from computed where job = $1", job)
        computed = Counter(row["step"] for row in rows)
        assert computed == Counter(sample_jobs.STEPS) + Counter([killed_in]), "only the step that was cut off ran again"
    assert await worker_processes.effects() == dict.fromkeys(jobs.values(), 1)
    assert await worker_processes.connection.fetchval("select count(*) from penstock.checkpoints") == 0
    assert await worker_processes.charged() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["mid-map=kill", "before-count-down=kill@20", "mid-map=cut", "before-count-down=cut@20"]
)
async def test_a_fanout_survives(worker_processes: WorkerProcesses, point: str) -> None:
    """Before the children are committed, and while they end."""
    pages = 60
    unlucky = await worker_processes.start(PENSTOCK_TEST_FAILPOINTS=point)
    job = await worker_processes.client.enqueue(sample_jobs.read_book(pages=pages))
    if point.endswith(("kill", "kill@20")):
        await unlucky.end()
        await worker_processes.start()

    assert await worker_processes.client.result(job, timeout=30) == sum(range(pages))
    assert len(await worker_processes.effects()) == pages + 1
    assert set((await worker_processes.effects()).values()) == {1}
    assert await worker_processes.connection.fetch(INVARIANTS) == []


@pytest.mark.slow
async def test_five_thousand_children_over_three_workers_with_kills(worker_processes: WorkerProcesses) -> None:
    pages = 5000
    hands = [await worker_processes.start("--concurrency", "20") for _ in range(3)]
    job = await worker_processes.client.enqueue(sample_jobs.read_book(pages=pages))
    for ended in (300, 1200, 2100, 3000, 3900):
        await worker_processes.until("select count(*) >= $1 from effects", ended)
        # One that lost its worker twice as a quarantined job would rightly be called poison.
        await worker_processes.until("select not exists (select from penstock.jobs where quarantined)")
        hands.pop(0).kill()
        hands.append(await worker_processes.start("--concurrency", "20"))

    assert await worker_processes.client.result(job, timeout=60) == sum(range(pages))
    await worker_processes.until_over()
    effects = await worker_processes.effects()
    assert (len(effects), set(effects.values())) == (pages + 1, {1})
    record = await worker_processes.record(job)
    assert (record.outcomes[-2:], record.failures) == (["waits", "done"], 0)
    assert (
        await worker_processes.connection.fetchval("select count(*) from penstock.job_history where fanout is not null")
        == pages
    )
    assert await worker_processes.connection.fetch(INVARIANTS) == []
