"""kill -9 in a step or in the middle of a fan-out: what was done stays done, and the rest goes on elsewhere."""

from collections import Counter

import pytest

from tests.scenarios import workshop
from tests.scenarios.crew import Crew

INVARIANTS = """
select 'count' as broken from penstock.fanouts where unfinished <>
  (select count(*) from penstock.jobs where jobs.fanout = fanouts.id and state <> 'dead')
union all select 'twice' from penstock.job_history group by id having count(*) > 1
union all select 'both' from penstock.jobs join penstock.job_history using (id)
"""


async def test_every_step_resumes(crew: Crew) -> None:
    """One job for each step to be killed in; all of them lose their worker at once."""
    first = await crew.hire()
    jobs = {step: await crew.client.enqueue(workshop.make_in_steps(hang_in=step)) for step in workshop.STEPS}
    for step, job in jobs.items():
        await crew.until("select exists (select from computed where job = $1 and step = $2)", job, step)
    first.kill()
    await crew.hire()

    for killed_in, job in jobs.items():
        assert await crew.client.result(job, timeout=30) == ["READ", "DRAW", "BIND", "SEND"]
        rows = await crew.connection.fetch("select step, attempt from computed where job = $1", job)
        computed = Counter(row["step"] for row in rows)
        assert computed == Counter(workshop.STEPS) + Counter([killed_in]), "only the step that was cut off ran again"
    assert await crew.effects() == dict.fromkeys(jobs.values(), 1)
    assert await crew.connection.fetchval("select count(*) from penstock.checkpoints") == 0
    assert await crew.charged() == 0


@pytest.mark.parametrize(
    "point", ["mid-map=kill", "before-count-down=kill@20", "mid-map=cut", "before-count-down=cut@20"]
)
async def test_a_fanout_survives(crew: Crew, point: str) -> None:
    """Before the children are committed, and while they end."""
    pages = 60
    unlucky = await crew.hire(PENSTOCK_TEST_FAILPOINTS=point)
    job = await crew.client.enqueue(workshop.read_book(pages=pages))
    if point.endswith(("kill", "kill@20")):
        await unlucky.end()
        await crew.hire()

    assert await crew.client.result(job, timeout=30) == sum(range(pages))
    assert len(await crew.effects()) == pages + 1
    assert set((await crew.effects()).values()) == {1}
    assert await crew.connection.fetch(INVARIANTS) == []


async def test_five_thousand_children_over_three_workers_with_kills(crew: Crew) -> None:
    pages = 5000
    hands = [await crew.hire("--concurrency", "20") for _ in range(3)]
    job = await crew.client.enqueue(workshop.read_book(pages=pages))
    for ended in (300, 1200, 2100, 3000, 3900):
        await crew.until("select count(*) >= $1 from effects", ended)
        # One that lost its worker twice as a suspect would rightly be called poison.
        await crew.until("select not exists (select from penstock.jobs where suspect)")
        hands.pop(0).kill()
        hands.append(await crew.hire("--concurrency", "20"))

    assert await crew.client.result(job, timeout=60) == sum(range(pages))
    await crew.until_over()
    effects = await crew.effects()
    assert (len(effects), set(effects.values())) == (pages + 1, {1})
    story = await crew.story(job)
    assert (story.outcomes[-2:], story.failures) == (["waits", "done"], 0)
    assert await crew.connection.fetchval("select count(*) from penstock.job_history where fanout is not null") == pages
    assert await crew.connection.fetch(INVARIANTS) == []
