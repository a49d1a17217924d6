"""Fairness and gates."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.claim import ActiveLane, divide
from penstock.engine.job import Done
from tests.engine.conftest import JobQueue, make_kind, nothing


async def test_lanes_take_turns(job_queue: JobQueue) -> None:
    await job_queue.enqueue(*(nothing(n=n) for n in range(1000)), fairness_key="big")
    for fairness_key in range(9):
        await job_queue.enqueue(nothing(), nothing(), fairness_key=f"small-{fairness_key}")
    worker = await job_queue.worker()
    jobs = await job_queue.claimers[worker].claim({"default": 20})
    assert Counter(job.fairness_key for job in jobs) == {"big": 2} | {f"small-{n}": 2 for n in range(9)}


async def test_with_more_lanes_than_slots_everybody_has_a_turn(job_queue: JobQueue) -> None:
    for fairness_key in range(200):
        await job_queue.enqueue(*(nothing(n=n) for n in range(3)), fairness_key=f"s{fairness_key:03}")
    worker = await job_queue.worker()
    turns: Counter[str] = Counter()
    for _ in range(200):
        jobs = await job_queue.claimers[worker].claim({"default": 1})
        turns.update(job.fairness_key for job in jobs)
        await job_queue.settle(worker, *((job, Done()) for job in jobs))
    assert turns.total() == 200
    assert max(turns.values()) - min(turns.get(f"s{n:03}", 0) for n in range(200)) <= 1


async def test_weights(job_queue: JobQueue) -> None:
    await job_queue.run("insert into penstock.fairness_weights values ('heavy', 3)")
    for fairness_key in ("heavy", "light"):
        await job_queue.enqueue(*(nothing(n=n) for n in range(100)), fairness_key=fairness_key)
    worker = await job_queue.worker()
    jobs = await job_queue.claimers[worker].claim({"default": 40})
    assert Counter(job.fairness_key for job in jobs) == {"heavy": 30, "light": 10}


async def test_a_better_band_goes_first_whatever_its_lane(job_queue: JobQueue) -> None:
    await job_queue.enqueue(*(nothing(n=n) for n in range(50)), fairness_key="a")
    [urgent] = await job_queue.enqueue(nothing(), fairness_key="z", priority=-5)
    worker = await job_queue.worker()
    [job] = await job_queue.claimers[worker].claim({"default": 1})
    assert job.id == urgent


async def test_a_kind_that_nobody_serves_waits_and_is_in_nobodys_way(job_queue: JobQueue) -> None:
    strange = make_kind("strange")
    [unserved] = await job_queue.enqueue(strange(), priority=-10)
    [served] = await job_queue.enqueue()
    worker = await job_queue.worker(nothing)
    assert [job.id for job in await job_queue.claim(worker)] == [served]
    assert await job_queue.state(unserved) == "ready"


async def test_hundreds_of_closed_lanes_do_not_hide_an_open_one(job_queue: JobQueue) -> None:
    for fairness_key in range(150):
        await job_queue.enqueue(fairness_key=f"paused-{fairness_key}", priority=-1 - fairness_key % 2)
        await job_queue.run("insert into penstock.pauses values ('fairness_key', $1, 'test')", f"paused-{fairness_key}")
    [free] = await job_queue.enqueue(fairness_key="zz")
    worker = await job_queue.worker()
    assert [job.id for job in await job_queue.claimers[worker].claim({"default": 10})] == [free]
    assert await job_queue.claimers[worker].claim({"default": 10}) == []


async def test_two_claimers_never_share_a_job(job_queue: JobQueue) -> None:
    await job_queue.enqueue(*(nothing(n=n) for n in range(500)))
    workers = [await job_queue.worker() for _ in range(4)]
    claimed = await asyncio.gather(*(job_queue.claim(worker, slots=200) for worker in workers))
    numbers = [job.id for jobs in claimed for job in jobs]
    assert len(numbers) == len(set(numbers)) == 500


lanes = st.lists(
    st.builds(
        ActiveLane,
        priority=st.integers(-2, 2),
        lane=st.integers(1, 50),
        queue=st.sampled_from(["a", "b"]),
        weight=st.integers(1, 5),
    ),
    max_size=20,
)


@given(lanes, st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 30)))
def test_slots_are_divided_within_their_limits(active: list[ActiveLane], free: dict[str, int]) -> None:
    picks = divide(active, free)
    for queue in ("a", "b"):
        taken = [(lane, take) for lane, take in picks if lane.queue == queue]
        here = [lane for lane in active if lane.queue == queue]
        assert sum(take for _, take in taken) <= free.get(queue, 0)
        assert all(take > 0 for _, take in taken)
        if here and free.get(queue, 0) > 0:
            assert taken, "a free slot and a lane with work come together"
            assert {lane.priority for lane, _ in taken} == {here[0].priority}
