"""Dead letters: another chance in stages, or the end with a reason."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from penstock import Penstock, Permanent
from penstock.engine.inspect.dead_letters import RedriveResult, Selection, discard, redrive
from penstock.engine.job import Dead, describe_failure
from penstock.errors import BadJob, NothingChanged
from penstock.settings import Settings
from tests.engine.conftest import JobQueue, nothing


async def bury(job_queue: JobQueue, count: int = 1, text: str = "boom", code: str = "v1", **options: Any) -> list[int]:
    """Dead jobs, all of one cause."""
    worker = await job_queue.worker()
    await job_queue.enqueue(*(nothing(n=n) for n in range(count)), **options)
    jobs = await job_queue.claim(worker, count)
    dead = Dead(describe_failure("nothing", Permanent(text), "Permanent", code))
    await job_queue.settle(worker, *((job, dead) for job in jobs))
    await job_queue.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'left' where id = $1", worker)
    return sorted(job.id for job in jobs)


class RetryingWorker:
    """A worker of this process whose handler does as it is told."""

    def __init__(self, settings: Settings) -> None:
        self.app = Penstock(database_url=settings.database_url, home=settings.home, pool={"size": 4})
        self.ran: list[int] = []
        self.fails: dict[int, str] = {}  # the text of its error, by the number of the job
        self.error: type[Exception] = Permanent

        @self.app.job(name="nothing")
        async def work(ctx: Any, n: int = 0) -> None:
            self.ran.append(ctx.job.id)
            if ctx.job.id in self.fails:
                raise self.error(self.fails[ctx.job.id])

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with self.app:
            task = asyncio.create_task(self.app.work(stop=stop))
            try:
                yield
            finally:
                stop.set()
                await task


@pytest.fixture
def retrying_worker(settings: Settings) -> RetryingWorker:
    return RetryingWorker(settings)


async def stages(job_queue: JobQueue, **options: Any) -> tuple[RedriveResult, list[str]]:
    told: list[str] = []
    result = await redrive(job_queue.database, Selection(kind="nothing"), tell=told.append, **options)
    return result, told


async def test_one_then_ten_then_all(job_queue: JobQueue, retrying_worker: RetryingWorker) -> None:
    ids = await bury(job_queue, 25)
    async with retrying_worker.working():
        result, told = await stages(job_queue)
    assert told == ["Redriving 1 job, 24 to go", "Redriving 10 jobs, 14 to go", "Redriving 14 jobs, 0 to go"]
    assert (result.done, result.left, result.stopped) == (25, 0, "")
    assert retrying_worker.ran[0] == ids[0]
    assert sorted(retrying_worker.ran) == ids
    assert result.sentence == "25 jobs done."


async def test_it_stops_when_the_same_failure_returns(job_queue: JobQueue, retrying_worker: RetryingWorker) -> None:
    ids = await bury(job_queue, 25)
    # The message and the place make the fingerprint; that of the worker's handler is another one.
    retrying_worker.fails = {ids[5]: "page 5"}
    async with retrying_worker.working():
        result, _ = await stages(job_queue)
        assert (result.done, result.failed_otherwise, result.stopped) == (24, [ids[5]], "")
        assert f"1 dead for another reason (job {ids[5]})" in result.sentence
        retrying_worker.fails |= {ids[5]: "page 6"}
        result, told = await stages(job_queue, force=True)
    assert told == ["Redriving 1 job, 0 to go"]
    assert result.failed_again == [ids[5]]
    assert result.sentence == (
        f"Stopped: the same failure has returned (job {ids[5]}). 0 jobs done. 0 left as they were."
    )


async def test_what_is_left_stays_dead(job_queue: JobQueue, retrying_worker: RetryingWorker) -> None:
    ids = await bury(job_queue, 25)
    retrying_worker.fails = {job: f"page {job}" for job in ids}
    async with retrying_worker.working():
        result, _ = await stages(job_queue)
        assert (len(result.failed_otherwise), result.stopped) == (25, ""), "the first time it is a new cause"
        result, told = await stages(job_queue, force=True)
    assert told == ["Redriving 1 job, 24 to go"]
    assert (result.failed_again, result.left) == ([ids[0]], 24)
    rows = await job_queue.run("select count(*) from penstock.jobs where state = 'dead'")
    assert rows[0][0] == 25


async def test_a_return_is_noticed_before_the_last_try(job_queue: JobQueue, retrying_worker: RetryingWorker) -> None:
    """A transient error is tried again for a while; that it is the same one is known after the first try."""
    ids = await bury(job_queue, 3)
    retrying_worker.error = RuntimeError
    retrying_worker.fails = dict.fromkeys(ids, "busy")
    async with retrying_worker.working():
        await stages(job_queue, patience=timedelta(seconds=1))
        assert await job_queue.state(ids[0]) == "later", "it has failed in a new way, and has tries left"
        await job_queue.run(
            "update penstock.jobs set state = 'dead', run_at = null, fingerprint = $1", await mark(job_queue, ids[0])
        )
        result, _ = await stages(job_queue, force=True)
    assert result.failed_again == [ids[0]]
    assert await job_queue.state(ids[0]) == "later"
    assert result.left == 2


async def mark(job_queue: JobQueue, job_id: int) -> str:
    [row] = await job_queue.run("select fingerprint from penstock.jobs where id = $1", job_id)
    return str(row["fingerprint"])


async def test_patience_ends(job_queue: JobQueue) -> None:
    ids = await bury(job_queue, 2)
    result, _ = await stages(job_queue, patience=timedelta(milliseconds=200))
    assert result.unfinished == [ids[0]]
    assert "1 job did not end within 200 ms" in result.sentence
    assert f"`penstock why {ids[0]}`" in result.sentence
    assert (await job_queue.state(ids[0]), await job_queue.state(ids[1])) == ("ready", "dead")


async def test_nothing_has_changed(job_queue: JobQueue) -> None:
    [job] = await bury(job_queue, code="v1")
    worker = await job_queue.worker()
    await job_queue.run("""update penstock.workers set load = '{"code": "v1"}' where id = $1""", worker)
    with pytest.raises(NothingChanged, match=r"same code and settings \(v1\)"):
        await stages(job_queue)
    assert await job_queue.state(job) == "dead"
    other = await job_queue.worker()
    await job_queue.run("""update penstock.workers set load = '{"code": "v2"}' where id = $1""", other)
    result, _ = await stages(job_queue, patience=timedelta(milliseconds=50))
    assert result.unfinished == [job], "a deploy is under way: it may meet the new code"


async def test_nothing_is_known_of_the_code(job_queue: JobQueue) -> None:
    await bury(job_queue, code="")
    await job_queue.worker()
    result, told = await stages(job_queue, patience=timedelta(milliseconds=50))
    assert told
    assert result.unfinished


async def test_a_poison_job_stays_alone(job_queue: JobQueue) -> None:
    await job_queue.enqueue()
    for _ in range(3):  # once as one of many, twice as a quarantined job
        worker = await job_queue.worker()
        assert await job_queue.claim(worker) or await job_queue.claim_quarantined(worker)
        await job_queue.lose(worker)
    [row] = await job_queue.run("select id, state, error ->> 'class' as class from penstock.jobs")
    assert (row["state"], row["class"]) == ("dead", "Poison")
    await redrive(job_queue.database, Selection((row["id"],)), patience=timedelta(milliseconds=50))
    assert (await job_queue.find(row["id"]))["quarantined"], "it must not take others with it once more"


async def test_by_ids_and_by_fingerprint(job_queue: JobQueue) -> None:
    first, second = await bury(job_queue, 2)
    [other] = await bury(job_queue, text="quite another thing")
    [row] = await job_queue.run("select fingerprint from penstock.jobs where id = $1", other)
    brief = timedelta(milliseconds=50)
    assert (
        await redrive(job_queue.database, Selection(fingerprint=row["fingerprint"]), patience=brief)
    ).unfinished == [other]
    assert (await redrive(job_queue.database, Selection((second, 404)), patience=brief)).unfinished == [second]
    assert await job_queue.state(first) == "dead"
    assert (await redrive(job_queue.database, Selection(kind="other"))).sentence == "No dead job matches."
    with pytest.raises(BadJob, match="No dead jobs are selected"):
        Selection()


async def test_discard(job_queue: JobQueue) -> None:
    [dead] = await bury(job_queue, unique="only-one")
    [alive] = await job_queue.enqueue()
    with pytest.raises(BadJob, match="needs a reason"):
        await discard(job_queue.database, Selection((dead,)), "  ")
    assert await discard(job_queue.database, Selection((dead, alive, 404)), "sent by mistake") == [dead]
    assert await job_queue.state(alive) == "ready", "only the dead are discarded"
    row = await job_queue.find(dead)
    assert row["state"] == "discarded"
    assert '"discarded": "sent by mistake"' in row["error"]
    assert '"message": "boom"' in row["error"], "and how it had failed is kept, too"
    [again] = await job_queue.enqueue(nothing(), unique="only-one")
    assert again != dead, "its key is free"
