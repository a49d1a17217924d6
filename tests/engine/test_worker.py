"""An application with a worker in the same process: what a handler returns or raises decides what happens."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from asyncpg import Record

from penstock import JobCancelled, JobDead, Penstock, Permanent, RateLimited, ResourceLimit
from penstock.engine import Context
from penstock.engine.metrics import tally
from penstock.engine.queue import sql
from penstock.errors import JobNotFound
from penstock.settings import DatabaseUrl
from tests.polling import until


@pytest.fixture
def app(database_url: DatabaseUrl) -> Penstock:
    return Penstock(database_url=database_url, pool={"size": 4, "hold_limit": timedelta(seconds=2)})


@asynccontextmanager
async def working(app: Penstock, concurrency: int | dict[str, int] = 10) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with app:
        work = asyncio.create_task(app.work(stop=stop, concurrency=concurrency, drain="1s"))
        try:
            yield
        finally:
            stop.set()
            await work


async def find(app: Penstock, job_id: int) -> Record:
    row = await app.database.pool.repeat(sql.find_job.first, id=job_id)
    assert row is not None
    return row


async def until_state(app: Penstock, job_id: int, *states: str) -> Record:
    async with asyncio.timeout(15):
        while True:
            row = await find(app, job_id)
            if row["state"] in states:
                return row
            await asyncio.sleep(0.02)


async def test_a_result_comes_back(app: Penstock) -> None:
    @app.job()
    async def double(ctx: Context, n: int) -> dict[str, int]:
        return {"twice": 2 * n}

    async with working(app):
        assert await app.result(await app.enqueue(double(n=21)), timeout="10s") == {"twice": 42}


async def test_a_result_is_awaited_by_notification(app: Penstock) -> None:
    """Fifty waiters, none of which polls: the answers come long before the fallback would look."""

    @app.job()
    async def wait_a_little(ctx: Context, n: int) -> int:
        await asyncio.sleep(0.2)
        return n

    async with working(app, concurrency=50):
        began = time.monotonic()
        numbers = await app.enqueue_many([wait_a_little(n=n) for n in range(50)])
        assert await asyncio.gather(*(app.result(number, timeout="10s") for number in numbers)) == list(range(50))
        assert time.monotonic() - began < 1.2


async def test_what_result_raises(app: Penstock) -> None:
    @app.job()
    async def refuse(ctx: Context) -> None:
        raise Permanent("encrypted: a password is needed")

    @app.job()
    async def sleep(ctx: Context) -> None:
        await asyncio.sleep(60)

    async with working(app):
        with pytest.raises(JobDead, match="a password is needed"):
            await app.result(await app.enqueue(refuse()), timeout="10s")
        slow = await app.enqueue(sleep())
        with pytest.raises(TimeoutError):
            await app.result(slow, timeout="200ms")
        await app.cancel(slow)
        with pytest.raises(JobCancelled):
            await app.result(slow, timeout="10s")
        with pytest.raises(JobNotFound):
            await app.result(999_999_999, timeout="10s")


@pytest.mark.parametrize("text", ["half \udc80 of a character", "a \0 in it"])
async def test_a_failure_that_postgresql_cannot_keep_as_it_is(app: Penstock, text: str) -> None:
    """It comes from the name of a hostile file, for example; the job must die of it all the same."""

    @app.job()
    async def unreadable(ctx: Context) -> None:
        raise Permanent(text)

    async with working(app):
        number = await app.enqueue(unreadable())
        with pytest.raises(JobDead, match=r"(half|a) . (of a character|in it)"):
            await app.result(number, timeout=10)


async def test_an_unknown_error_is_tried_again_and_charged(app: Penstock) -> None:
    tries = []

    @app.job(retries=1)
    async def fail(ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise ValueError(f"try {ctx.attempt}")

    async with working(app):
        number = await app.enqueue(fail())
        row = await until_state(app, number, "later")
        assert (row["failures"], json.loads(row["error"])["message"]) == (1, "try 1")
        await app.database.pool.repeat(
            lambda session: session.execute("update penstock.jobs set run_at = penstock.now()")
        )
        row = await until_state(app, number, "dead")
    assert tries == [1, 2]
    error = json.loads(row["error"])
    assert error["class"] == "Transient"
    assert "in fail" in error["traceback"]
    assert [attempt["outcome"] for attempt in json.loads(row["attempts"])] == ["retry", "dead"]


async def test_patience_is_not_charged(app: Penstock) -> None:
    @app.job(retries=0)
    async def busy(ctx: Context) -> str:
        if ctx.attempt < 3:
            raise RateLimited(retry_after=0.05)
        return "at last"

    async with working(app):
        number = await app.enqueue(busy())
        assert await app.result(number, timeout="10s") == "at last"
        assert (await find(app, number))["failures"] == 0


async def test_a_resource_limit_is_retried_alone_and_only_once(app: Penstock) -> None:
    @app.job(retries=5)
    async def swell(ctx: Context) -> None:
        raise ResourceLimit("out of memory")

    async with working(app):
        number = await app.enqueue(swell())
        row = await until_state(app, number, "later")
        assert row["quarantined"]
        await app.database.pool.repeat(
            lambda session: session.execute("update penstock.jobs set run_at = penstock.now()")
        )
        row = await until_state(app, number, "dead")
        assert row["failures"] == 2


async def test_a_timeout_ends_the_attempt(app: Penstock) -> None:
    @app.job(timeout="300ms", retries=0)
    async def hang(ctx: Context) -> None:
        await asyncio.sleep(60)

    async with working(app):
        row = await until_state(app, await app.enqueue(hang()), "dead")
    error = json.loads(row["error"])
    assert error["class"] == "ResourceLimit"
    assert "timeout" in error["message"]
    assert "hang" in error["traceback"], "it tells where the handler was"


async def test_progress_is_shown_and_its_absence_is_a_stall(app: Penstock) -> None:
    @app.job(stall_after="1s", retries=0)
    async def work_on(ctx: Context, steps: int) -> None:
        for step in range(steps):
            await ctx.progress(step, steps, "page")
            await asyncio.sleep(0.3)
        await asyncio.sleep(60)

    async with working(app):
        number = await app.enqueue(work_on(steps=6))
        began = time.monotonic()
        shown = None
        while shown is None:
            shown = (await until_state(app, number, "running"))["progress"]
        assert json.loads(shown)["total"] == 6
        row = await until_state(app, number, "dead")
        assert time.monotonic() - began > 2.5, "it lived for as long as it made progress"
        assert "no progress" in json.loads(row["error"])["message"]


async def test_a_result_that_cannot_be_kept_is_permanent(app: Penstock) -> None:
    @app.job()
    async def give(ctx: Context) -> object:
        return object()

    @app.job()
    async def give_nul(ctx: Context) -> str:
        return "a\0b"

    async with working(app):
        row = await until_state(app, await app.enqueue(give()), "dead")
        assert "cannot be kept as JSON" in json.loads(row["error"])["message"]
        number = await app.enqueue(give_nul())
        assert (await until_state(app, number, "dead", "done"))["state"] in ("dead", "done")


async def test_what_is_raised_after_finish_is_not_retried(app: Penstock) -> None:
    @app.job()
    async def finish_and_fail(ctx: Context) -> str:
        async with ctx.finish(result="kept") as tx:
            await tx.execute("create table penstock.once (n int)")
        raise ValueError("too late")

    async with working(app):
        number = await app.enqueue(finish_and_fail())
        assert await app.result(number, timeout="10s") == "kept"
        await asyncio.sleep(0.3)
        assert (await find(app, number))["attempt"] == 1


async def test_a_running_job_is_cancelled_by_the_beat(app: Penstock) -> None:
    seen = []

    @app.job()
    async def sleep(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(ctx.cancelled)
            raise

    async with working(app):
        number = await app.enqueue(sleep())
        await until_state(app, number, "running")
        assert await app.cancel(number) == [number]
        await until_state(app, number, "cancelled")
    assert seen == [True]


async def test_queues_have_slots_of_their_own(app: Penstock) -> None:
    running: dict[str, int] = {"a": 0, "b": 0}
    most = dict(running)

    async def count(name: str) -> None:
        running[name] += 1
        most[name] = max(most[name], running[name])
        await asyncio.sleep(0.05)
        running[name] -= 1

    @app.job(queue="a")
    async def in_a(ctx: Context) -> None:
        await count("a")

    @app.job(queue="b")
    async def in_b(ctx: Context) -> None:
        await count("b")

    async with working(app, concurrency={"a": 2, "b": 5}):
        numbers = await app.enqueue_many([in_a() for _ in range(10)] + [in_b() for _ in range(20)])
        for number in numbers:
            await app.result(number, timeout="10s")
    assert most == {"a": 2, "b": 5}


async def test_stopping_gives_unfinished_work_back(app: Penstock) -> None:
    @app.job(retries=0)
    async def sleep(ctx: Context) -> None:
        await asyncio.sleep(60)

    async with app:
        stop = asyncio.Event()
        work = asyncio.create_task(app.work(concurrency=2, stop=stop, drain="100ms"))
        numbers = await app.enqueue_many([sleep() for _ in range(5)])
        await until_state(app, numbers[0], "running")
        stop.set()
        await work
        rows = [await find(app, number) for number in numbers]
        assert {(row["state"], row["failures"]) for row in rows} == {("ready", 0)}
        gone = await app.database.pool.repeat(lambda session: session.fetchval("select gone_why from penstock.workers"))
        assert gone == "left"


async def test_cancelling_work_ends_it_cleanly(app: Penstock) -> None:
    @app.job()
    async def sleep(ctx: Context) -> None:
        await asyncio.sleep(60)

    async with app:
        work = asyncio.create_task(app.work(concurrency=2))
        number = await app.enqueue(sleep())
        await until_state(app, number, "running")
        work.cancel()
        await asyncio.wait([work])
        assert (await find(app, number))["state"] == "ready"


async def test_many_jobs_all_end_once(app: Penstock) -> None:
    @app.job()
    async def nothing(ctx: Context, n: int) -> None:
        """The cheapest job there is."""

    async with working(app, concurrency=50):
        numbers = await app.enqueue_many([nothing(n=n) for n in range(5000)])

        for number in [*numbers[::100], numbers[-1]]:
            await app.result(number, timeout="30s")
        await until(lambda: tally.outcomes["nothing", "Done", ""] >= 5000)
    async with app:
        left, most = await app.database.pool.repeat(
            lambda session: session.fetchrow(
                "select (select count(*) from penstock.jobs), "
                "(select max(count) from (select count(*) from penstock.job_history group by id) as times)"
            )
        )
    assert (left, most) == (0, 1)


async def test_handlers_hold_no_connection(app: Penstock) -> None:
    @app.job()
    async def sleep(ctx: Context) -> None:
        await asyncio.sleep(0.5)

    async with working(app, concurrency=200):
        await app.enqueue_many([sleep() for _ in range(200)])
        await until(lambda: tally.running["sleep"] == 200)
        assert app.database.pool.state.used <= 1


async def test_waiting_for_a_result_does_not_hide_the_job_from_the_claim(app: Penstock) -> None:
    """Marking a job as awaited locks its row for a moment; a claim that skips it must not rest for seconds."""

    @app.job()
    async def nothing(ctx: Context) -> None:
        """The cheapest job there is."""

    async with working(app):
        began = time.monotonic()
        for _ in range(40):
            await app.result(await app.enqueue(nothing()), timeout="20s")
        assert time.monotonic() - began < 4
