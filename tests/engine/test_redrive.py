"""Dead letters: another chance in stages, or the end with a reason."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from penstock import Penstock, Permanent
from penstock.engine.outcome import Bury, describe_failure
from penstock.engine.redrive import Redriven, Selection, discard, redrive
from penstock.errors import BadJob, NothingChanged
from penstock.settings import Settings
from tests.engine.conftest import Shop, nothing


async def bury(shop: Shop, count: int = 1, text: str = "boom", code: str = "v1", **options: Any) -> list[int]:
    """Dead jobs, all of one cause."""
    worker = await shop.worker()
    await shop.enqueue(*(nothing(n=n) for n in range(count)), **options)
    jobs = await shop.claim(worker, count)
    dead = Bury(describe_failure("nothing", Permanent(text), "Permanent", code))
    await shop.settle(worker, *((job, dead) for job in jobs))
    await shop.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'left' where id = $1", worker)
    return sorted(job.id for job in jobs)


class Clerk:
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
def clerk(settings: Settings) -> Clerk:
    return Clerk(settings)


async def stages(shop: Shop, **options: Any) -> tuple[Redriven, list[str]]:
    told: list[str] = []
    result = await redrive(shop.database, Selection(kind="nothing"), tell=told.append, **options)
    return result, told


async def test_one_then_ten_then_all(shop: Shop, clerk: Clerk) -> None:
    ids = await bury(shop, 25)
    async with clerk.working():
        result, told = await stages(shop)
    assert told == ["Redriving 1 job, 24 to go", "Redriving 10 jobs, 14 to go", "Redriving 14 jobs, 0 to go"]
    assert (result.done, result.left, result.stopped) == (25, 0, "")
    assert clerk.ran[0] == ids[0]
    assert sorted(clerk.ran) == ids
    assert result.sentence == "25 jobs done."


async def test_it_stops_when_the_same_failure_returns(shop: Shop, clerk: Clerk) -> None:
    ids = await bury(shop, 25)
    # The message and the place make the fingerprint; that of the clerk's handler is another one.
    clerk.fails = {ids[5]: "page 5"}
    async with clerk.working():
        result, _ = await stages(shop)
        assert (result.done, result.failed_otherwise, result.stopped) == (24, [ids[5]], "")
        assert f"1 dead for another reason (job {ids[5]})" in result.sentence
        clerk.fails |= {ids[5]: "page 6"}
        result, told = await stages(shop, force=True)
    assert told == ["Redriving 1 job, 0 to go"]
    assert result.failed_again == [ids[5]]
    assert result.sentence == (
        f"Stopped: the same failure has returned (job {ids[5]}). 0 jobs done. 0 left as they were."
    )


async def test_what_is_left_stays_dead(shop: Shop, clerk: Clerk) -> None:
    ids = await bury(shop, 25)
    clerk.fails = {job: f"page {job}" for job in ids}
    async with clerk.working():
        result, _ = await stages(shop)
        assert (len(result.failed_otherwise), result.stopped) == (25, ""), "the first time it is a new cause"
        result, told = await stages(shop, force=True)
    assert told == ["Redriving 1 job, 24 to go"]
    assert (result.failed_again, result.left) == ([ids[0]], 24)
    rows = await shop.run("select count(*) from penstock.jobs where state = 'dead'")
    assert rows[0][0] == 25


async def test_a_return_is_noticed_before_the_last_try(shop: Shop, clerk: Clerk) -> None:
    """A transient error is tried again for a while; that it is the same one is known after the first try."""
    ids = await bury(shop, 3)
    clerk.error = RuntimeError
    clerk.fails = dict.fromkeys(ids, "busy")
    async with clerk.working():
        await stages(shop, patience=timedelta(seconds=1))
        assert await shop.state(ids[0]) == "later", "it has failed in a new way, and has tries left"
        await shop.run(
            "update penstock.jobs set state = 'dead', run_at = null, fingerprint = $1", await mark(shop, ids[0])
        )
        result, _ = await stages(shop, force=True)
    assert result.failed_again == [ids[0]]
    assert await shop.state(ids[0]) == "later"
    assert result.left == 2


async def mark(shop: Shop, job_id: int) -> str:
    [row] = await shop.run("select fingerprint from penstock.jobs where id = $1", job_id)
    return str(row["fingerprint"])


async def test_patience_ends(shop: Shop) -> None:
    ids = await bury(shop, 2)
    result, _ = await stages(shop, patience=timedelta(milliseconds=200))
    assert result.unfinished == [ids[0]]
    assert "1 job did not end within 200 ms" in result.sentence
    assert f"`penstock why {ids[0]}`" in result.sentence
    assert (await shop.state(ids[0]), await shop.state(ids[1])) == ("ready", "dead")


async def test_nothing_has_changed(shop: Shop) -> None:
    [job] = await bury(shop, code="v1")
    worker = await shop.worker()
    await shop.run("""update penstock.workers set load = '{"code": "v1"}' where id = $1""", worker)
    with pytest.raises(NothingChanged, match=r"same code and settings \(v1\)"):
        await stages(shop)
    assert await shop.state(job) == "dead"
    other = await shop.worker()
    await shop.run("""update penstock.workers set load = '{"code": "v2"}' where id = $1""", other)
    result, _ = await stages(shop, patience=timedelta(milliseconds=50))
    assert result.unfinished == [job], "a deploy is under way: it may meet the new code"


async def test_nothing_is_known_of_the_code(shop: Shop) -> None:
    await bury(shop, code="")
    await shop.worker()
    result, told = await stages(shop, patience=timedelta(milliseconds=50))
    assert told
    assert result.unfinished


async def test_a_poison_job_stays_alone(shop: Shop) -> None:
    await shop.enqueue()
    for _ in range(3):  # once as one of many, twice as a suspect
        worker = await shop.worker()
        assert await shop.claim(worker) or await shop.claim_suspect(worker)
        await shop.lose(worker)
    [row] = await shop.run("select id, state, error ->> 'class' as class from penstock.jobs")
    assert (row["state"], row["class"]) == ("dead", "Poison")
    await redrive(shop.database, Selection((row["id"],)), patience=timedelta(milliseconds=50))
    assert (await shop.find(row["id"]))["suspect"], "it must not take others with it once more"


async def test_by_ids_and_by_fingerprint(shop: Shop) -> None:
    first, second = await bury(shop, 2)
    [other] = await bury(shop, text="quite another thing")
    [row] = await shop.run("select fingerprint from penstock.jobs where id = $1", other)
    brief = timedelta(milliseconds=50)
    assert (await redrive(shop.database, Selection(fingerprint=row["fingerprint"]), patience=brief)).unfinished == [
        other
    ]
    assert (await redrive(shop.database, Selection((second, 404)), patience=brief)).unfinished == [second]
    assert await shop.state(first) == "dead"
    assert (await redrive(shop.database, Selection(kind="other"))).sentence == "No dead job matches."
    with pytest.raises(BadJob, match="Say which dead jobs"):
        Selection()


async def test_discard(shop: Shop) -> None:
    [dead] = await bury(shop, unique="only-one")
    [alive] = await shop.enqueue()
    with pytest.raises(BadJob, match="needs a reason"):
        await discard(shop.database, Selection((dead,)), "  ")
    assert await discard(shop.database, Selection((dead, alive, 404)), "sent by mistake") == [dead]
    assert await shop.state(alive) == "ready", "only the dead are discarded"
    row = await shop.find(dead)
    assert row["state"] == "discarded"
    assert '"discarded": "sent by mistake"' in row["error"]
    assert '"message": "boom"' in row["error"], "and how it had failed is kept, too"
    [again] = await shop.enqueue(nothing(), unique="only-one")
    assert again != dead, "its key is free"
