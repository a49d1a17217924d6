"""A lane and a queue take so many waiting jobs and no more."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Context, Penstock, QueueFull
from penstock.engine import Call
from penstock.engine.admission import WaitingCount
from penstock.engine.admission import sql as admission_sql
from penstock.errors import BadJob
from penstock.settings import Settings
from tests.engine.conftest import JobQueue, make_kind
from tests.engine.query_plans import plan_of, prepare
from tests.polling import until
from tests.slow import slow_but_first

LIKE_LATER = (
    "update penstock.jobs set state = 'later', run_at = penstock.now() + interval '1 hour' where state = 'ready'"
)


async def do_nothing(ctx: Context, n: int = 0) -> None: ...


@pytest.fixture
async def app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Penstock]:
    """Looks that are never good for long, so that each enqueue counts anew."""
    monkeypatch.setattr("penstock.engine.admission.FRESH", 0.0)
    monkeypatch.setattr("penstock.engine.admission.COST", 0)
    made = Penstock(home=settings.home, database_url=settings.database_url, pool__size=4)
    made.job(name="shallow", max_queue_size=3)(do_nothing)
    made.job(name="deep")(do_nothing)
    made.job(name="narrow", queue="llm")(do_nothing)
    made.job(name="wide", queue="llm")(do_nothing)
    made.queue("llm", max_queue_size=4)
    async with made:
        yield made


def shallow(app: Penstock) -> Call:
    return app.kinds["shallow"](n=1)


async def run(app: Penstock, query: str, *arguments: Any) -> Any:
    async with app.transaction() as tx:
        return await tx.fetchval(query, *arguments)


async def test_a_full_lane_refuses(app: Penstock) -> None:
    for _ in range(3):
        await app.enqueue(shallow(app))
    with pytest.raises(QueueFull) as refused:
        await app.enqueue(shallow(app))
    assert str(refused.value) == (
        "The lane shallow of default in the queue default is full: at least 3 jobs wait in it, and its maximum size is 3. "
        "Try again in 5 s."
    )
    assert refused.value.retry_after == timedelta(seconds=5)
    await app.enqueue(shallow(app), fairness_key="somebody else")
    for _ in range(5):
        await app.enqueue(app.kinds["deep"]())
    assert await run(app, "select count(*) from penstock.jobs") == 9


async def test_room_is_taken_again(app: Penstock) -> None:
    jobs = [await app.enqueue(shallow(app)) for _ in range(3)]
    await app.cancel(jobs[0])
    assert (await app.enqueue(shallow(app))).created
    with pytest.raises(QueueFull):
        await app.enqueue(shallow(app))


async def test_what_is_later_waits_too_and_what_runs_does_not(app: Penstock) -> None:
    await app.enqueue(shallow(app), run_in="1h")
    await app.enqueue(shallow(app), priority=-5)
    await app.enqueue(shallow(app), priority=7)
    with pytest.raises(QueueFull):
        await app.enqueue(shallow(app))
    await run(app, LIKE_LATER)
    with pytest.raises(QueueFull, match="at least 3 jobs wait"):  # a dependency is down, and all are backing off
        await app.enqueue(shallow(app))
    await run(
        app,
        "update penstock.jobs set state = 'running', run_at = null, worker_id = 1, claimed_at = penstock.now() where id = "
        "(select min(id) from penstock.jobs)",
    )
    await app.enqueue(shallow(app))


async def test_enqueue_many_is_all_or_nothing(app: Penstock) -> None:
    await app.enqueue_many([shallow(app)] * 2)
    with pytest.raises(QueueFull):
        await app.enqueue_many([shallow(app), app.kinds["deep"](), shallow(app)])
    assert await run(app, "select count(*) from penstock.jobs") == 2
    await app.enqueue_many([shallow(app), *[app.kinds["deep"]()] * 10])
    with pytest.raises(
        BadJob, match=r"4 jobs never fit into the lane shallow .* whose maximum size is 3: enqueue fewer"
    ):
        await app.enqueue_many([shallow(app)] * 4, fairness_key="other")


async def test_in_a_transaction(app: Penstock) -> None:
    """Its own jobs count, and so do those that others have committed."""
    async with app.transaction() as tx:
        for _ in range(3):
            await app.enqueue(shallow(app), tx=tx)
        with pytest.raises(QueueFull):
            await app.enqueue(shallow(app), tx=tx)
        with pytest.raises(QueueFull):
            await app.enqueue_many([shallow(app)], tx=tx)
        assert await tx.fetchval("select count(*) from penstock.jobs") == 3, "the transaction goes on"
    connection = await asyncpg.connect(app.dsn)
    with pytest.raises(QueueFull):
        await app.enqueue(shallow(app), tx=connection)
    await connection.close()


async def test_transactions_with_the_whole_pool_do_not_wait_for_each_other(app: Penstock) -> None:
    async def one(fairness_key: str) -> None:
        async with app.transaction() as tx:
            await app.enqueue(shallow(app), tx=tx, fairness_key=fairness_key)

    async with asyncio.timeout(5):
        await asyncio.gather(*(one(f"share {n % 10}") for n in range(20)))
    assert await run(app, "select count(*) from penstock.jobs") == 20


async def test_a_transaction_does_not_wait_for_somebody_who_needs_its_connection(app: Penstock) -> None:
    async with AsyncExitStack() as stack:
        held = [await stack.enter_async_context(app.transaction()) for _ in range(4)]  # all that the pool has
        looking = asyncio.create_task(app.enqueue(shallow(app)))
        await until(lambda: app.database.pool.state.waiting > 0)
        async with asyncio.timeout(5):
            for tx in held[:2]:
                assert (await app.enqueue(shallow(app), tx=tx)).created
    assert (await looking).created


async def test_a_queue_has_a_depth_over_all_its_lanes(app: Penstock) -> None:
    narrow, wide = app.kinds["narrow"], app.kinds["wide"]
    await app.enqueue(narrow())
    await app.enqueue(wide(), fairness_key="a", run_in="1h")
    await app.enqueue(wide(), fairness_key="b", priority=3)
    await app.enqueue(narrow(), fairness_key="b")
    with pytest.raises(QueueFull, match="The queue llm is full: at least 4 jobs wait in it, and its maximum size is 4"):
        await app.enqueue(wide(), fairness_key="new")
    await app.enqueue(shallow(app))


async def test_a_taken_key_is_not_refused(app: Penstock) -> None:
    first = await app.enqueue(shallow(app), unique="a")
    await app.enqueue_many([shallow(app)] * 2)
    again = await app.enqueue(shallow(app), unique="a")
    assert (again, again.created) == (first, False)
    with pytest.raises(QueueFull):
        await app.enqueue(shallow(app), unique="b")


async def test_what_was_let_in_since_the_look_counts(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looks nobody asks the server, and the process knows what it has put in itself."""
    monkeypatch.setattr("penstock.engine.admission.FRESH", 60.0)
    for _ in range(3):
        await app.enqueue(shallow(app))
    with pytest.raises(QueueFull, match=": 3 jobs wait in it"):
        await app.enqueue(shallow(app))
    await run(app, "delete from penstock.jobs")
    with pytest.raises(QueueFull):  # the look is still good
        await app.enqueue(shallow(app))


async def test_a_look_does_not_see_more_than_it_must(job_queue: JobQueue) -> None:
    kind = make_kind("crowded")
    await job_queue.enqueue(*(kind() for _ in range(50)))
    [row] = await job_queue.run("select id from penstock.lanes where kind = 'crowded'")
    async with job_queue.database.pool.session() as session:
        counted = [await admission_sql.count_lane.value(session, lane=row["id"], most=most) for most in (1, 49, 50, 51)]
        queued = [await admission_sql.count_queue.value(session, queue="default", most=most) for most in (7, 100)]
        nowhere = await admission_sql.count_queue.value(session, queue="elsewhere", most=100)
    assert (counted, queued, nowhere) == ([1, 49, 50, 50], [7, 50], 0)


@pytest.mark.parametrize("statistics", slow_but_first(["skewed", "none", "fresh"]))
async def test_a_look_walks_indexes(job_queue: JobQueue, statistics: str) -> None:
    await prepare(job_queue, statistics)
    looks: dict[str, dict[str, Any]] = {
        "count_lane": {"lane": 7, "most": 1000},
        "count_queue": {"queue": "default", "most": 1000},
    }
    for name, values in looks.items():
        for generic in (False, True):
            async with job_queue.database.pool.transaction() as tx:
                found = await plan_of(tx, getattr(admission_sql, name), values, generic=generic)
            scans = {
                node["Index Name"] if "Index Name" in node else node["Node Type"]
                for node in found
                if node.get("Relation Name") == "jobs" and "Scan" in node["Node Type"]
            }
            assert scans <= {"jobs_ready", "jobs_later_lane"}, (name, statistics, generic, json.dumps(sorted(scans)))


def test_when_to_try_again() -> None:
    look = WaitingCount()
    assert look.retry_after(1) == timedelta(seconds=5), "nothing was seen yet"
    look.note(100, 0, began=10.0, max_queue_size=100)
    look.note(100, 0, began=11.0, max_queue_size=100)
    assert look.retry_after(1) == timedelta(seconds=5), "both stopped counting at the bound"
    look.note(80, 0, began=12.0, max_queue_size=100)
    assert look.retry_after(100) == timedelta(seconds=5), "20 a second"
    assert look.retry_after(1) == timedelta(seconds=1), "not sooner"
    assert look.retry_after(100_000) == timedelta(seconds=60), "not later"
    look = WaitingCount()
    look.note(50, 0, began=10.0, max_queue_size=100)
    look.added = 10
    look.note(60, 10, began=40.0, max_queue_size=100)
    assert (look.waiting, look.retry_after(1)) == (60, timedelta(seconds=30)), "nothing has gone for so long"


@pytest.mark.parametrize("max_queue_size", [0, -1, 2.5, "10", True])
def test_nonsense(max_queue_size: Any) -> None:
    app = Penstock()
    with pytest.raises(BadJob, match="use an integer of at least 1"):
        app.job(max_queue_size=max_queue_size)(do_nothing)
    with pytest.raises(BadJob, match="use an integer of at least 1"):
        app.queue("llm", max_queue_size=max_queue_size)
    with pytest.raises(BadJob, match="cannot be the name of a queue"):
        app.queue("llm!", max_queue_size=1)
