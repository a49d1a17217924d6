"""Putting in, uniqueness, cancelling, pausing: by hand, without workers."""

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine.job import Dead, Done, Failure
from penstock.errors import NotFound
from penstock.settings import DatabaseUrl
from tests.engine.conftest import JobQueue, make_kind, nothing


async def test_jobs_come_out_in_the_order_of_priority_and_age(job_queue: JobQueue) -> None:
    [a, b] = await job_queue.enqueue(nothing(n=1), nothing(n=2))
    [urgent] = await job_queue.enqueue(nothing(n=3), priority=-1)
    [lazy] = await job_queue.enqueue(nothing(n=4), priority=1)
    worker = await job_queue.worker()
    assert [job.id for job in await job_queue.claim(worker)] == [urgent, a, b, lazy]


async def test_numbers_are_given_in_the_order_of_the_calls(job_queue: JobQueue) -> None:
    numbers = await job_queue.enqueue(*(nothing(n=n) for n in range(12_000)))
    rows = await job_queue.run("select id, args from penstock.jobs order by id")
    assert [row["id"] for row in rows] == numbers
    assert [json.loads(row["args"])["n"] for row in rows] == list(range(12_000))


async def test_a_job_for_later_is_not_claimed_before_its_time(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    [later] = await job_queue.enqueue(delay=timedelta(seconds=10))
    await job_queue.advance(9)
    assert await job_queue.promote() == 0
    assert await job_queue.claim(worker) == []
    await job_queue.advance(2)
    assert await job_queue.promote() == 1
    assert [job.id for job in await job_queue.claim(worker)] == [later]


async def test_a_taken_key_gives_the_job_that_has_it(job_queue: JobQueue) -> None:
    [first] = await job_queue.enqueue(unique="ada")
    [second] = await job_queue.enqueue(unique="ada")
    assert (first.created, second.created) == (True, False)
    assert second == first
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    assert (await job_queue.enqueue(unique="ada"))[0] == first, "running is not over"
    await job_queue.settle(worker, (job, Done()))
    [third] = await job_queue.enqueue(unique="ada")
    assert third.created
    assert third != first


async def test_a_key_can_outlive_its_job(job_queue: JobQueue) -> None:
    [first] = await job_queue.enqueue(unique="ada", unique_for=timedelta(seconds=60))
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    await job_queue.settle(worker, (job, Done()))
    assert not (await job_queue.enqueue(unique="ada"))[0].created
    await job_queue.advance(61)
    [again] = await job_queue.enqueue(unique="ada")
    assert again.created
    assert again != first


async def test_one_batch_with_one_key_makes_one_job(job_queue: JobQueue) -> None:
    numbers = await job_queue.enqueue(nothing(n=1), nothing(n=2), nothing(n=3), unique="same")
    assert len(set(numbers)) == 1
    assert len(await job_queue.run("select from penstock.jobs")) == 1


async def test_many_callers_with_the_same_keys_make_one_job_each(
    job_queue: JobQueue, database_url: DatabaseUrl
) -> None:
    app = Penstock(database_url=database_url, pool__size=6)
    kind = app.job(name="nothing")(nothing.handler)
    async with app:
        keys = [f"key-{n % 20}" for n in range(400)]
        numbers = await asyncio.gather(*(app.enqueue(kind(n=1), unique=key) for key in keys))
    assert sum(number.created for number in numbers) == 20
    assert len(set(numbers)) == 20
    assert len(await job_queue.run("select from penstock.jobs")) == 20


async def test_a_job_is_born_with_its_transaction_or_not_at_all(job_queue: JobQueue, database_url: DatabaseUrl) -> None:
    app = Penstock(database_url=database_url)
    kind = app.job(name="nothing")(nothing.handler)
    async with app:
        with pytest.raises(ZeroDivisionError):
            async with app.transaction() as tx:
                await app.enqueue(kind(), tx=tx)
                raise ZeroDivisionError
        assert await job_queue.run("select from penstock.jobs") == []
        async with app.transaction() as tx:
            await tx.execute("create table cards (n int)")
            await app.enqueue(kind(), tx=tx)
        plain = await asyncpg.connect(app.dsn)
        async with plain.transaction():
            await app.enqueue(kind(), unique="x", tx=plain)
        await plain.close()
    assert len(await job_queue.run("select from penstock.jobs")) == 2


async def test_a_new_lane_in_a_long_transaction_blocks_nobody(job_queue: JobQueue, database_url: DatabaseUrl) -> None:
    app = Penstock(database_url=database_url)
    kind = app.job(name="nothing")(nothing.handler)
    async with app, app.transaction() as tx:
        await app.enqueue(kind(), fairness_key="new", tx=tx)
        async with asyncio.timeout(5):
            await job_queue.enqueue(fairness_key="new")


async def test_cancelling_what_does_not_run(job_queue: JobQueue, database_url: DatabaseUrl) -> None:
    app = Penstock(database_url=database_url)
    [ready, keyed] = [(await job_queue.enqueue())[0], (await job_queue.enqueue(unique="k"))[0]]
    [later] = await job_queue.enqueue(delay=timedelta(hours=1))
    async with app:
        assert await app.cancel(ready, later, keyed, 999_999) == sorted([ready, later, keyed])
    assert [await job_queue.state(number) for number in (ready, later, keyed)] == ["cancelled"] * 3
    assert (await job_queue.enqueue(unique="k"))[0].created, "its key is free again"


@pytest.mark.parametrize("what", ["queue", "kind", "fairness_key"])
async def test_pause_and_resume(job_queue: JobQueue, database_url: DatabaseUrl, what: str) -> None:
    names = {"queue": "cpu", "kind": "render", "fairness_key": "tenant-7"}
    render = make_kind("render", queue="cpu")
    other = make_kind("other", queue="other")
    app = Penstock(database_url=database_url)
    [paused] = await job_queue.enqueue(render(), fairness_key="tenant-7")
    [free] = await job_queue.enqueue(other(), fairness_key="tenant-8")
    worker = await job_queue.worker(render, other)
    async with app:
        await app.pause(**{what: names[what]}, reason="maintenance")
        assert await job_queue.claim(worker, queue="cpu") == []
        assert [job.id for job in await job_queue.claim(worker, queue="other")] == [free]
        assert await app.resume(**{what: names[what]})
        assert not await app.resume(**{what: names[what]})
        assert [job.id for job in await job_queue.claim(worker, queue="cpu")] == [paused]


async def test_a_pause_of_what_does_not_exist_is_refused(job_queue: JobQueue, database_url: DatabaseUrl) -> None:
    app = Penstock(database_url=database_url)
    async with app:
        with pytest.raises(NotFound, match=r"^Queue cpu does not exist. No worker has declared any yet.$"):
            await app.pause(queue="cpu")
        await job_queue.enqueue(make_kind("render", queue="cpu")(), fairness_key="Müller & Söhne")
        await job_queue.worker(make_kind("translate", queue="llm"))
        sentences = {
            ("queue", "cpus"): "Queue cpus does not exist. Did you mean cpu?",
            ("queue", "mlm"): "Queue mlm does not exist. Did you mean llm?",
            ("queue", "documents"): "Queue documents does not exist. Known: cpu, llm.",
            ("kind", "rendre"): "Kind rendre does not exist. Did you mean render?",
            ("kind", "translates"): "Kind translates does not exist. Did you mean translate?",
            ("fairness_key", "Muller"): "Fairness key Muller has never had a job or a schedule. Check its spelling.",
            ("fairness_key", "Müller & Sons"): (
                "Fairness key Müller & Sons has never had a job or a schedule. Did you mean Müller & Söhne?"
            ),
        }
        for (what, name), sentence in sentences.items():
            with pytest.raises(NotFound) as refused:
                await app.pause(**{what: name})
            assert str(refused.value) == sentence
        assert await job_queue.run("select from penstock.pauses") == []


async def test_what_only_a_schedule_or_the_application_knows_can_be_paused(
    job_queue: JobQueue, database_url: DatabaseUrl
) -> None:
    app = Penstock(database_url=database_url)
    app.job(name="tidy", queue="upkeep")(make_kind().handler)
    async with app:
        await app.pause(kind="tidy")
        await app.pause(queue="upkeep")
        await app.add_schedule("nightly", "every 1d", app.kinds["tidy"](), fairness_key="tenant-9")
        await app.pause(fairness_key="tenant-9")
        paused = await job_queue.run("select what, name from penstock.pauses")
        assert {(row["what"], row["name"]) for row in paused} == {
            ("kind", "tidy"),
            ("queue", "upkeep"),
            ("fairness_key", "tenant-9"),
        }


async def test_what_is_dead_keeps_its_place_in_the_books(job_queue: JobQueue) -> None:
    [number] = await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    await job_queue.settle(worker, (job, Dead(Failure("Permanent", "ValueError", "no", "trace", "f00"))))
    row = await job_queue.find(number)
    assert row["state"] == "dead"
    assert json.loads(row["error"])["message"] == "no"
    assert json.loads(row["attempts"])[0]["outcome"] == "dead"
