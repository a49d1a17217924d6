"""`ctx.map`: children, their count and the parent's waiting are one commit; results come back in order."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock.engine import Call, Gap
from penstock.engine.children import Suspended, cancel_trees, sweep_fanouts
from penstock.engine.context import Context
from penstock.engine.inspect.dead_letters import Selection, redrive
from penstock.engine.job import Cancelled, Dead, Done, Failure, Job, Requeue, Retry
from penstock.engine.maintenance import BATCH
from penstock.errors import BadJob, BadStep, ChildFailed, LeaseLost
from tests.engine.conftest import JobQueue, make_kind

failure = Failure("Permanent", "ValueError", "page 3 is torn", "trace", "f00")
book = make_kind("book")
page = make_kind("page")


class Family:
    """One parent, its worker, and its children."""

    def __init__(self, job_queue: JobQueue, worker: int, parent: int) -> None:
        self.job_queue = job_queue
        self.worker = worker
        self.parent = parent

    async def begin(self) -> Context:
        """The parent's next attempt."""
        [job] = await self.job_queue.claim(self.worker, 1)
        assert job.kind == "book"
        return self.job_queue.context(job, self.worker, book)

    async def map(self, count: int = 3, name: str = "pages", **options: Any) -> Any:
        return await (await self.begin()).map(name, calls(count), **options)

    async def children(self, slots: int = 100) -> list[Job]:
        jobs = await self.job_queue.claim(self.worker, slots)
        assert {job.kind for job in jobs} <= {"page"}
        return jobs

    async def end(self, *jobs: Job) -> None:
        await self.job_queue.settle(self.worker, *((job, Done(job.args)) for job in jobs))

    async def unfinished(self) -> list[int]:
        await check_counts(self.job_queue)
        rows = await self.job_queue.run("select unfinished from penstock.fanouts order by id")
        return [row["unfinished"] for row in rows]


async def check_counts(job_queue: JobQueue) -> None:
    """The invariant: each fan-out's number is that of its living children, and who waits for none is ready."""
    wrong = await job_queue.run(
        "select * from penstock.fanouts where unfinished <> "
        "(select count(*) from penstock.jobs where jobs.fanout = fanouts.id and state <> 'dead')"
    )
    assert wrong == []
    stuck = await job_queue.run(
        "select * from penstock.jobs join penstock.fanouts on fanouts.id = jobs.waits_for "
        "where jobs.state = 'waiting' and jobs.fanout is distinct from jobs.waits_for and fanouts.unfinished = 0"
    )
    assert stuck == []


def calls(count: int) -> list[Call]:
    return [page(n=n) for n in range(count)]


@pytest.fixture
async def family(job_queue: JobQueue) -> Family:
    [parent] = await job_queue.enqueue(book(), priority=-5, fairness_key="ada")
    return Family(job_queue, await job_queue.worker(book, page), parent)


async def test_the_parent_waits_without_an_owner(family: Family) -> None:
    context = await family.begin()
    with pytest.raises(Suspended):
        await context.map("pages", calls(3))
    assert context.suspended
    row = await family.job_queue.find(family.parent)
    assert (row["state"], row["worker_id"]) == ("waiting", None)
    assert await family.unfinished() == [3]
    jobs = await family.children()
    assert [json.loads(job.args)["n"] for job in jobs] == [0, 1, 2]
    assert {(job.fairness_key, job.priority) for job in jobs} == {("ada", -5)}, "inherited"


async def test_the_last_child_makes_it_ready_and_results_come_in_order(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(3)
    first, second, third = await family.children()
    await family.end(third, first)
    assert await family.job_queue.state(family.parent) == "waiting"
    await family.end(second)
    assert await family.job_queue.state(family.parent) == "ready"
    assert await family.map(3) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (await family.job_queue.find(family.parent))["failures"] == 0


async def test_a_childs_own_end_counts_too(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(1)
    [child] = await family.children()
    async with family.job_queue.context(child, family.worker, page).finish(result="mine"):
        pass
    assert await family.map(1) == ["mine"]


async def test_a_retried_child_does_not_count(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(2)
    first, second = await family.children()
    await family.job_queue.settle(family.worker, (first, Retry(failure, timedelta(0))), (second, Requeue()))
    assert await family.unfinished() == [2]


async def test_a_dead_child_is_the_parents_failure_with_its_cause(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(3)
    first, second, third = await family.children()
    await family.job_queue.settle(family.worker, (first, Done("1")), (second, Dead(failure)), (third, Done("3")))
    with pytest.raises(ChildFailed, match=f"job {second.id} dead: page 3 is torn") as caught:
        await family.map(3)
    assert caught.value.children == [second.id]


async def test_a_gap_where_it_is_allowed(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(3, gaps="allow")
    first, second, third = await family.children()
    await family.job_queue.settle(family.worker, (first, Done("1")), (second, Dead(failure)), (third, Cancelled()))
    found = await family.map(3, gaps="allow")
    assert found == [1, Gap(second.id, "dead: page 3 is torn"), Gap(third.id, "cancelled: no reason is known")]


async def test_at_most_so_many_at_once(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(5, limit=2)
    first, second = await family.children()
    await family.end(first)
    [third] = await family.children()
    await family.end(second, third)
    fourth, fifth = await family.children()
    await family.job_queue.settle(family.worker, (fourth, Dead(failure)))
    assert await family.children() == []
    await family.end(fifth)
    assert await family.job_queue.state(family.parent) == "ready"


async def test_a_child_that_died_with_its_worker_counts(family: Family) -> None:
    """Poison: dead by the rescue, not by a settler."""
    with pytest.raises(Suspended):
        await family.map(1)
    await family.job_queue.claim(family.worker)
    await family.job_queue.lose(family.worker)
    for _ in range(2):
        worker = await family.job_queue.worker(book, page)
        assert await family.job_queue.claim_quarantined(worker) is not None
        await family.job_queue.lose(worker)
    family.worker = await family.job_queue.worker(book, page)
    assert await family.unfinished() == [0]
    with pytest.raises(ChildFailed, match="worker was lost"):
        await family.map(1)


async def test_a_stale_parent_makes_no_children(family: Family) -> None:
    context = await family.begin()
    await family.job_queue.lose(family.worker)
    with pytest.raises(LeaseLost):
        await context.map("pages", calls(3))
    assert await family.job_queue.run("select * from penstock.fanouts") == []
    assert len(await family.job_queue.run("select * from penstock.jobs")) == 1


async def test_two_maps_one_after_the_other(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(2, "first")
    await family.end(*await family.children())
    context = await family.begin()
    assert len(await context.map("first", calls(2))) == 2
    with pytest.raises(Suspended):
        await context.map("second", calls(3))
    await family.end(*await family.children())
    context = await family.begin()
    assert [len(await context.map("first", calls(2))), len(await context.map("second", calls(3)))] == [2, 3]


async def test_a_failed_parent_finds_its_results_again(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(2)
    await family.end(*await family.children())
    context = await family.begin()
    assert len(await context.map("pages", calls(2))) == 2
    await family.job_queue.settle(family.worker, (context.job, Retry(failure, timedelta(0))))
    await family.job_queue.promote()
    assert len(await family.map(2)) == 2


async def test_results_that_the_history_has_forgotten_are_made_anew(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(3)
    await family.end(*await family.children())
    await family.job_queue.run("delete from penstock.job_history where turn = 1")
    with pytest.raises(Suspended):
        await family.map(3)
    [again] = await family.children()
    assert again.args == '{"n":1}'
    await family.end(again)
    assert await family.map(3) == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_other_calls_by_the_same_code_are_refused(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(3)
    await family.end(*await family.children())
    with pytest.raises(BadStep, match="every attempt makes the same calls"):
        await family.map(4)


async def test_other_calls_by_a_new_release_begin_anew(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(1)
    await family.end(*await family.children())
    [job] = await family.job_queue.claim(family.worker, 1)
    with pytest.raises(Suspended):
        await family.job_queue.context(job, family.worker, book, code="2").map("pages", calls(2))
    await family.end(*await family.children())
    [job] = await family.job_queue.claim(family.worker, 1)
    assert len(await family.job_queue.context(job, family.worker, book, code="2").map("pages", calls(2))) == 2


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("pages", []), {}, "no calls"),
        (("pages", [1]), {}, "takes calls"),
        (("", calls(1)), {}, "name of a map"),
        (("pages", calls(1)), {"limit": 0}, "limit"),
        (("pages", calls(1)), {"limit": 1.5}, "limit"),
        (("pages", calls(1)), {"gaps": "ignore"}, "gaps"),
        (("pages", calls(1) * 100_001), {}, "map over parts"),
    ],
)
async def test_a_bad_map_is_a_permanent_failure(
    family: Family, arguments: Any, options: dict[str, Any], said: str
) -> None:
    context = await family.begin()
    with pytest.raises(BadStep, match=said):
        await context.map(*arguments, **options)
    assert await family.job_queue.state(family.parent) == "running"


# -- what happens to one happens to its tree ------------------------------------------------------------------------------


async def cancel(job_queue: JobQueue, *ids: int) -> list[int]:
    async with job_queue.database.pool.transaction() as tx:
        return await cancel_trees(tx, ids, "enough")


async def test_a_cancel_goes_down_the_tree(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(3)
    [running] = await family.children(1)
    rows = await family.job_queue.run("select id from penstock.jobs where state = 'ready'")
    idle = [row["id"] for row in rows]
    assert await cancel(family.job_queue, family.parent) == sorted([family.parent, running.id, *idle])
    for number in (family.parent, *idle):
        assert await family.job_queue.state(number) == "cancelled"
    assert (await family.job_queue.find(running.id))["cancelling"]
    await family.job_queue.settle(family.worker, (running, Cancelled()))
    await sweep(family.job_queue)
    assert await family.job_queue.run("select * from penstock.fanouts") == []


async def test_a_cancelled_child_is_told_to_its_parent(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(1)
    [child] = await family.job_queue.run("select id from penstock.jobs where fanout is not null")
    assert await cancel(family.job_queue, child["id"]) == [child["id"]]
    assert await family.unfinished() == [0]
    with pytest.raises(ChildFailed, match="enough"):
        await family.map(1)


async def test_a_map_while_it_is_being_cancelled_ends_the_handler(family: Family) -> None:
    context = await family.begin()
    assert await cancel(family.job_queue, family.parent) == [family.parent]
    with pytest.raises(asyncio.CancelledError):
        await context.map("pages", calls(3))
    assert context.cancelled
    assert await family.job_queue.run("select * from penstock.jobs where fanout is not null") == []


async def sweep(job_queue: JobQueue) -> None:
    async with job_queue.database.pool.session() as session:
        await sweep_fanouts(session, BATCH)


async def test_children_of_a_parent_that_is_over_are_cancelled(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(2)
    [child, _] = await family.job_queue.run("select id from penstock.jobs where fanout is not null order by id")
    await family.job_queue.run("delete from penstock.jobs where id = $1", family.parent)
    await sweep(family.job_queue)
    row = await family.job_queue.find(child["id"])
    assert row["state"] == "cancelled"
    assert "its parent is over" in row["error"]


async def test_no_parent_waits_in_vain(family: Family) -> None:
    """A child that vanished without counting down, by hand or by an older release."""
    with pytest.raises(Suspended):
        await family.map(1)
    await family.job_queue.run("delete from penstock.jobs where fanout is not null")
    await sweep(family.job_queue)
    assert await family.job_queue.state(family.parent) == "ready"
    with pytest.raises(Suspended):
        await family.map(1)
    await family.end(*await family.children())
    assert await family.map(1) == [{"n": 0}]


async def test_the_sweep_leaves_healthy_families_alone(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(2)
    [child] = await family.children(1)
    await sweep(family.job_queue)
    assert await family.job_queue.state(family.parent) == "waiting"
    await family.end(child)
    await sweep(family.job_queue)
    assert await family.unfinished() == [1]


# -- redrive --------------------------------------------------------------------------------------------------------


async def bury_family(family: Family) -> Job:
    """A parent that is dead of its second child."""
    with pytest.raises(Suspended):
        await family.map(2)
    first, second = await family.children()
    await family.job_queue.settle(family.worker, (first, Done("1")), (second, Dead(failure)))
    context = await family.begin()
    with pytest.raises(ChildFailed):
        await context.map("pages", calls(2))
    await family.job_queue.settle(family.worker, (context.job, Dead(failure)))
    return second


async def while_redriving(family: Family, number: int, go_on: Callable[[], Awaitable[None]]) -> None:
    redriving = asyncio.create_task(redrive(family.job_queue.database, Selection((number,)), force=True))
    async with asyncio.timeout(5):
        while await family.job_queue.state(number) != "ready":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await go_on()
    result = await redriving
    assert (result.done, result.failed_again) == (1, [])


async def test_redriving_a_parent_redrives_its_dead_children(family: Family) -> None:
    dead = await bury_family(family)

    async def go_on() -> None:
        assert await family.unfinished() == [1]
        both = await family.job_queue.claim(family.worker)
        [parent] = [job for job in both if job.id == family.parent]
        [again] = [job for job in both if job.id == dead.id]
        with pytest.raises(Suspended):
            await family.job_queue.context(parent, family.worker, book).map("pages", calls(2))
        await family.end(again)
        context = await family.begin()
        assert await context.map("pages", calls(2)) == [1, {"n": 1}]
        await family.job_queue.settle(family.worker, (context.job, Done()))

    await while_redriving(family, family.parent, go_on)


async def test_redriving_a_child_leaves_its_dead_parent_dead(family: Family) -> None:
    dead = await bury_family(family)

    async def go_on() -> None:
        await family.end(*await family.children())

    await while_redriving(family, dead.id, go_on)
    assert await family.job_queue.state(family.parent) == "dead"
    assert await family.unfinished() == [0]


async def test_a_child_of_a_finished_parent_is_not_redriven(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(2, gaps="allow")
    first, second = await family.children()
    await family.job_queue.settle(family.worker, (first, Done("1")), (second, Dead(failure)))
    context = await family.begin()
    await context.map("pages", calls(2), gaps="allow")
    await family.job_queue.settle(family.worker, (context.job, Done()))
    with pytest.raises(BadJob, match="the result would not be used"):
        await redrive(family.job_queue.database, Selection((second.id,)), force=True)
    result = await redrive(family.job_queue.database, Selection(kind="page"), force=True)
    assert result.refused == [second.id]
    await sweep(family.job_queue)
    assert await family.job_queue.state(second.id) == "dead", "a gap stays for whoever wants to look at it"


async def test_a_cancelled_child_is_made_anew_for_a_redriven_parent(family: Family) -> None:
    with pytest.raises(Suspended):
        await family.map(1)
    [child] = await family.job_queue.run("select id from penstock.jobs where fanout is not null")
    await cancel(family.job_queue, child["id"])
    context = await family.begin()
    with pytest.raises(ChildFailed):
        await context.map("pages", calls(1))
    await family.job_queue.settle(family.worker, (context.job, Dead(failure)))

    async def go_on() -> None:
        with pytest.raises(Suspended):
            await family.map(1)
        await family.end(*await family.children())
        context = await family.begin()
        assert await context.map("pages", calls(1)) == [{"n": 0}]
        await family.job_queue.settle(family.worker, (context.job, Done()))

    await while_redriving(family, family.parent, go_on)


async def test_two_settlers_with_children_of_the_same_parents_do_not_meet_in_a_circle(job_queue: JobQueue) -> None:
    """Each settles one child of each parent, in opposite orders, many times over."""
    rounds = 20
    worker = await job_queue.worker(book, page)
    await job_queue.enqueue(book(), book())
    for job in await job_queue.claim(worker):
        with pytest.raises(Suspended):
            await job_queue.context(job, worker, book).map("pages", calls(2 * rounds))
    jobs: dict[int, list[Job]] = {}
    for job in await job_queue.claim(worker, 4 * rounds):
        [row] = await job_queue.run("select fanout from penstock.jobs where id = $1", job.id)
        jobs.setdefault(row["fanout"], []).append(job)
    mine, yours = jobs.values()
    for _ in range(rounds):
        one, other = (mine.pop(), yours.pop()), (yours.pop(), mine.pop())
        settled = await asyncio.gather(
            job_queue.settle(worker, *((job, Done()) for job in one)),
            job_queue.settle(worker, *((job, Done()) for job in other)),
        )
        assert [len(ids) for ids in settled] == [2, 2]
    await check_counts(job_queue)
    assert [row["state"] for row in await job_queue.run("select state::text from penstock.jobs")] == ["ready", "ready"]
