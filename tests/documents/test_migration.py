"""Another model for a collection with documents: what is chosen, and who may become live meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import (
    Publication,
    Work,
    change_collection,
    delete_collection,
    find_collection,
    load_work,
    publish,
)
from penstock.documents.collections import Collection
from penstock.documents.migration import (
    ModelChangeSuperseded,
    NotComplete,
    complete_versions,
    hold_turn,
    list_late,
    switch_model,
)
from penstock.engine import Context, Penstock
from penstock.engine.job import Dead, Failure, Job
from penstock.errors import BadValue, RateLimited
from penstock.search import prepare_model
from penstock.settings import DatabaseUrl
from tests.documents.conftest import NEVER, DocumentQueue, prepare_document

NOWHERE = {"url": "http://127.0.0.1:9/v1", "model": "bge", "dimensions": 3}


async def reembed_collection(ctx: Context, collection: int, model: str, turn: int) -> None:
    """The tests do the work."""


async def forget_vectors(ctx: Context, collection: int, model: str) -> None:
    """The tests do the work."""


@pytest.fixture
async def app(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Penstock]:
    app = Penstock(
        database_url=database_url,
        home=tmp_path,
        pool={"size": 4, "warm": 1, "hold_limit": timedelta(seconds=2)},
        models={"other": NOWHERE, "third": NOWHERE},
    )
    app.job(queue="documents", max_queue_size=app.settings.limits.waiting)(prepare_document)
    app.job(queue="models")(reembed_collection)
    app.job(queue="upkeep")(forget_vectors)
    async with app:
        yield app


async def choose(document_queue: DocumentQueue, model: str) -> Collection:
    return await change_collection(document_queue.app, "files", model=model)


async def jobs(document_queue: DocumentQueue, kind: str) -> list[dict[str, Any]]:
    """The arguments of jobs that are alive."""
    rows = await document_queue.run(
        "select args from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane where kind = $1 "
        "order by job.id",
        kind,
    )
    return [json.loads(row["args"]) for row in rows]


async def begin(document_queue: DocumentQueue) -> tuple[Job, Work]:
    """A document whose preparing has begun."""
    await document_queue.add("begun.txt", b"begun")
    job = await document_queue.claim_one()
    args = json.loads(job.args)
    async with document_queue.app.database.pool.session() as session:
        work = await load_work(session, args["document"], args["version"])
    assert work is not None
    return job, work


async def end(document_queue: DocumentQueue, job: Job, work: Work, *staged: str) -> list[str]:
    """As the pipeline ends; the models that were staged for nothing."""
    context = document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind)
    async with context.finish() as tx:
        published = await publish(tx, work, media_type="text/plain", pages=1, chunks=2, words=9, staged=staged)
    assert isinstance(published, Publication)
    return list(published.unwanted)


async def switch(document_queue: DocumentQueue, collection: Collection, *seen: int) -> None:
    turn = (await document_queue.run("select model_turn from penstock.collections where id = $1", collection.id))[0][
        "model_turn"
    ]
    async with document_queue.app.database.pool.transaction() as tx:
        await switch_model(tx, document_queue.app, collection.id, turn, seen)


async def late(document_queue: DocumentQueue, collection: Collection) -> list[int]:
    async with document_queue.app.database.pool.session() as session:
        return await list_late(session, collection.id)


async def test_another_model_is_built_by_a_job(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    chosen = await choose(document_queue, "other")
    assert (chosen.model, chosen.next_model, chosen.reembedded, chosen.to_reembed) == ("static", "other", 0, 2)
    assert await choose(document_queue, "other") == chosen, "the same again changes nothing"
    assert await jobs(document_queue, "reembed_collection") == [{"collection": chosen.id, "model": "other", "turn": 1}]
    assert (await change_collection(document_queue.app, "files", chunk_overlap=0)).next_model == "other"


async def test_chosen_by_many_at_once_it_is_built_once(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    await asyncio.gather(*(choose(document_queue, "other") for _ in range(6)))
    assert len(await jobs(document_queue, "reembed_collection")) == 1


async def test_an_empty_collection_changes_at_once(document_queue: DocumentQueue) -> None:
    chosen = await choose(document_queue, "other")
    assert (chosen.model, chosen.next_model) == ("other", None)
    assert await jobs(document_queue, "reembed_collection") == []


async def test_the_present_model_again_is_the_end_of_it(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    await choose(document_queue, "other")
    left = await choose(document_queue, "static")
    assert (left.model, left.next_model, left.next_job, left.to_reembed) == ("static", None, None, None)
    assert await jobs(document_queue, "reembed_collection") == [], "cancelled"
    assert await jobs(document_queue, "forget_vectors") == [{"collection": left.id, "model": "other"}]
    async with document_queue.app.database.pool.transaction() as tx:
        with pytest.raises(ModelChangeSuperseded):
            await hold_turn(tx, left.id, 1)


async def test_a_third_model_takes_the_place_of_the_next_one(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    await choose(document_queue, "other")
    chosen = await choose(document_queue, "third")
    assert chosen.next_model == "third"
    assert await jobs(document_queue, "reembed_collection") == [{"collection": chosen.id, "model": "third", "turn": 2}]
    assert await jobs(document_queue, "forget_vectors") == [{"collection": chosen.id, "model": "other"}]


async def test_models_that_cannot_be_used_are_refused_first(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    await prepare_model(document_queue.app.database, "third", 8)  # as an earlier setting of the same name had it
    for model, reason in {"nosuch": "does not exist", "minilm": "not installed", "third": "8 dimensions"}.items():
        with pytest.raises(BadValue, match=reason):
            await choose(document_queue, model)
    assert (await find_collection(document_queue.app, "files")).next_model is None


async def test_a_dead_job_is_told_and_chosen_again(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    first = await choose(document_queue, "other")
    worker = await document_queue.job_queue.worker(document_queue.app.kinds["reembed_collection"])
    [job] = await document_queue.job_queue.claim(worker, queue="models")
    failure = Failure("Permanent", "Permanent", "it has 4 dimensions.", "Traceback …", NEVER, step="reembed-embed")
    await document_queue.job_queue.settle(worker, (job, Dead(failure)))

    found = await find_collection(document_queue.app, "files")
    assert (found.model, found.next_model, found.is_stuck) == ("static", "other", True)
    assert f"Job {first.next_job} is dead: it has 4 dimensions. " in str(found.trouble)

    again = await choose(document_queue, "other")
    assert (again.is_stuck, again.trouble) == (False, None)
    assert again.next_job != first.next_job
    assert len(await jobs(document_queue, "reembed_collection")) == 1


async def test_who_began_before_is_late(document_queue: DocumentQueue) -> None:
    """It becomes ready with the old model, and the switch waits until it was looked at."""
    await document_queue.ready()
    job, work = await begin(document_queue)
    chosen = await choose(document_queue, "other")
    assert await end(document_queue, job, work, "static") == []
    assert await late(document_queue, chosen) == [work.version]
    with pytest.raises(NotComplete):
        await switch(document_queue, chosen)
    await switch(document_queue, chosen, work.version)
    assert (await find_collection(document_queue.app, "files")).model == "other"
    assert await late(document_queue, chosen) == []


async def test_who_staged_both_is_not_late(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    chosen = await choose(document_queue, "other")
    job, work = await begin(document_queue)
    assert work.next_model == "other"
    assert await end(document_queue, job, work, "static", "other") == []
    assert await late(document_queue, chosen) == []


async def test_who_could_not_stage_the_next_model_is_late(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    chosen = await choose(document_queue, "other")
    job, work = await begin(document_queue)
    assert await end(document_queue, job, work, "static") == []
    assert await late(document_queue, chosen) == [work.version]


async def test_the_old_model_alone_does_not_become_live_behind_a_switch(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    job, work = await begin(document_queue)
    await switch(document_queue, await choose(document_queue, "other"))
    with pytest.raises(RateLimited, match="just changed its embedding model"):
        await end(document_queue, job, work, "static")
    assert await document_queue.status(work.document) == "processing"


async def test_both_models_become_live_behind_a_switch(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    chosen = await choose(document_queue, "other")
    job, work = await begin(document_queue)
    await switch(document_queue, chosen)
    assert await end(document_queue, job, work, "static", "other") == ["static"], "which nobody needs now"


async def test_after_more_turns_nobody_knows_what_is_left_of_it(document_queue: DocumentQueue) -> None:
    """Cancelled in between, its vectors may have been removed."""
    await document_queue.ready()
    await choose(document_queue, "other")
    job, work = await begin(document_queue)
    await choose(document_queue, "static")
    await switch(document_queue, await choose(document_queue, "other"))
    with pytest.raises(RateLimited):
        await end(document_queue, job, work, "static", "other")


async def test_there_and_back_is_not_the_same(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    job, work = await begin(document_queue)
    await switch(document_queue, await choose(document_queue, "other"))
    await switch(document_queue, await choose(document_queue, "static"))
    with pytest.raises(RateLimited):
        await end(document_queue, job, work, "static")


async def test_a_switch_waits_for_who_publishes(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    chosen = await choose(document_queue, "other")
    job, work = await begin(document_queue)
    context = document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind)
    async with context.finish() as tx:
        assert await publish(tx, work, media_type="text/plain", pages=1, chunks=2, words=9)
        switching = asyncio.create_task(switch(document_queue, chosen))
        waits = "select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database "
        async with asyncio.timeout(5):
            while not await document_queue.run(f"{waits} where datname = current_database())"):  # noqa: ASYNC110  no event for locks
                await asyncio.sleep(0.01)
    with pytest.raises(NotComplete):
        await switching


async def test_a_deleted_collection_is_not_switched(document_queue: DocumentQueue) -> None:
    await document_queue.ready()
    chosen = await choose(document_queue, "other")
    await delete_collection(document_queue.app, "files")
    with pytest.raises(ModelChangeSuperseded):
        await switch(document_queue, chosen)


async def test_what_comes_back_may_have_to_be_prepared_again(document_queue: DocumentQueue) -> None:
    """Deleted before a change of the model, it has vectors of the old one alone."""
    accepted = await document_queue.ready()
    await document_queue.ready("empty.txt", b"nothing in it")
    rows = await document_queue.run("select id, chunks from penstock.versions order by id")
    full, empty = (row["id"] for row in rows)
    await document_queue.run("update penstock.versions set chunks = 0 where id = $1", empty)
    vectors = (
        "insert into penstock.vectors_static select $1, n, $2, array_fill(0, array[256])::vector::halfvec "
        "from generate_series(0, 1) as n"
    )
    collection = (await find_collection(document_queue.app, "files")).id
    assert accepted.id

    async def complete() -> set[int]:
        async with document_queue.app.database.pool.transaction() as tx:
            return await complete_versions(tx, collection, [full, empty])

    assert await complete() == {empty}
    await document_queue.run(vectors, full, collection)
    assert await complete() == {full, empty}
    chosen = await choose(document_queue, "other")
    assert await complete() == {full, empty}
    assert await late(document_queue, chosen) == [full, empty], "the next model does not have them"
    await switch(document_queue, chosen, full, empty)
    assert await complete() == {empty}
