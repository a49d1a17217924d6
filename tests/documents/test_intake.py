"""The way in: all of it or nothing, once, whoever else comes at the same moment."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.documents import (
    Accepted,
    AlreadyThere,
    Intake,
    Upload,
    create_collection,
    delete_collection,
    find_collection,
    retry_document,
)
from penstock.documents.ingest import intake
from penstock.documents.ingest.bulk import BulkIntake
from penstock.engine import Penstock
from penstock.errors import BadRequest, BadValue, BodyTooLarge, ConnectionLost, NameTaken, NotFound, QueueFull
from penstock.settings import DatabaseUrl
from tests.documents.conftest import DocumentQueue, pieces, prepare_document
from tests.postgres_proxy import Asked, Cut, PostgresProxy


async def test_an_upload_becomes_a_blob_a_document_a_version_a_job_and_an_event(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add("reports/a.txt", b"water", uploaded_by="ada", metadata={"client": "Mill"})

    assert accepted.answer() | {"id": 0, "job": 0, "served": False} == {
        "id": 0,
        "version": 1,
        "collection": "files",
        "name": "reports/a.txt",
        "status": "queued",
        "created": True,
        "unchanged": False,
        "served": False,
        "message": "accepted; no worker is running: start one with `penstock worker` or `penstock up`",
        "digest": hashlib.sha256(b"water").hexdigest(),
        "size": 5,
        "job": 0,
    }
    shown = await document_queue.show(accepted.id)
    assert (shown.status, shown.uploaded_by, shown.metadata, shown.job) == (
        "queued",
        "ada",
        {"client": "Mill"},
        accepted.job,
    )
    assert await document_queue.files() == [shown.key]
    assert b"".join([piece async for piece in document_queue.store.read(shown.key)]) == b"water"
    job = await document_queue.claim_one()
    assert job.args == f'{{"document":{accepted.id},"version":{shown.version_id}}}'
    assert await document_queue.events(accepted.id) == ["accepted"]


async def test_the_reply_says_whether_a_worker_serves_it(document_queue: DocumentQueue) -> None:
    worker = await document_queue.worker()
    assert (await document_queue.add("1")).message == "accepted"
    await document_queue.job_queue.advance(3600)
    assert not (await document_queue.add("2")).served  # silent for longer than its lease
    await document_queue.job_queue.heartbeat(worker)
    assert (await document_queue.add("3")).served
    await document_queue.run("update penstock.workers set draining = true")
    assert not (await document_queue.add("4")).served


async def test_a_taken_name_is_refused_before_the_upload(document_queue: DocumentQueue) -> None:
    first = await document_queue.add()

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("nothing is read")
        yield b""

    with pytest.raises(NameTaken, match=rf"exists already in files.* \(id {first.id}\)") as caught:
        await document_queue.intake.accept(Upload("files", "a.txt", never()))
    assert caught.value.existing == first.id
    with pytest.raises(NotFound, match="Collection nowhere does not exist"):
        await document_queue.intake.accept(Upload("nowhere", "a.txt", never()))
    with pytest.raises(BodyTooLarge, match=r"limits\.bytes"):
        await document_queue.intake.accept(Upload("files", "b.txt", never(), size=2_000_000))
    with pytest.raises(BadValue, match="part"):
        await document_queue.intake.accept(Upload("files", "../b.txt", never()))


async def test_twenty_at_once_with_one_name(document_queue: DocumentQueue) -> None:
    """All have looked before any has written: the index decides."""
    everybody = asyncio.Barrier(20)

    async def content(number: int) -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"content %d" % number

    async def accept(number: int) -> Accepted | NameTaken:
        try:
            return await document_queue.intake.accept(Upload("files", "one.txt", content(number)))
        except NameTaken as error:
            return error

    ended = await asyncio.gather(*(accept(number) for number in range(20)))
    [winner] = [each for each in ended if isinstance(each, Accepted)]
    assert {each.existing for each in ended if isinstance(each, NameTaken)} == {winner.id}
    assert (
        len(await document_queue.rows("documents"))
        == len(await document_queue.rows("jobs"))
        == len(await document_queue.rows("blobs"))
        == 1
    )
    assert len(await document_queue.files()) == 1


async def test_the_loser_is_told_whether_its_content_was_the_same(document_queue: DocumentQueue) -> None:
    async def slow(content: bytes) -> AsyncIterator[bytes]:
        yield content
        await document_queue.add("a.txt", b"water")

    with pytest.raises(AlreadyThere, match="with the same content") as caught:
        await document_queue.intake.accept(Upload("files", "a.txt", slow(b"water")))
    assert caught.value.digest_equal is True


async def test_the_same_content_is_kept_once(document_queue: DocumentQueue) -> None:
    """Also when it comes ten times at once, under ten names."""
    everybody = asyncio.Barrier(10)

    async def content() -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"water"

    accepted = await asyncio.gather(
        *(document_queue.intake.accept(Upload("files", f"{number}.txt", content())) for number in range(10))
    )
    assert len({each.id for each in accepted}) == 10
    [blob] = await document_queue.rows("blobs")
    assert await document_queue.files() == [blob["key"]]


async def test_an_interrupted_upload_leaves_nothing(document_queue: DocumentQueue) -> None:
    begun = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield b"x" * 700_000
        yield b"x" * 700_000 if document_queue.app.settings.limits.bytes > 1_400_000 else b"x"
        begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(document_queue.intake.accept(Upload("files", "a.txt", stuck())))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def breaks() -> AsyncIterator[bytes]:
        yield b"x" * 100
        raise ConnectionResetError("the client is gone")

    with pytest.raises(ConnectionResetError):
        await document_queue.intake.accept(Upload("files", "a.txt", breaks()))
    assert await document_queue.files() == []
    assert (
        await document_queue.rows("documents")
        == await document_queue.rows("blobs")
        == await document_queue.rows("jobs")
        == []
    )


@pytest.mark.parametrize("announced", [4, 6])
async def test_a_body_of_another_size_than_announced(document_queue: DocumentQueue, announced: int) -> None:
    with pytest.raises(BadRequest, match=f"{announced} bytes were announced, and 5 came"):
        await document_queue.add(size=announced)
    assert not await document_queue.files()
    assert not await document_queue.rows("documents")
    assert (await document_queue.add(size=5)).size == 5


async def test_more_bytes_than_the_limit(document_queue: DocumentQueue) -> None:
    with pytest.raises(BodyTooLarge, match=r"limits\.bytes"):
        await document_queue.add(content=b"x" * 1_048_577)
    assert await document_queue.files() == []
    assert (await document_queue.add(content=b"x" * 1_048_576)).size == 1_048_576


async def test_an_empty_document_is_accepted(document_queue: DocumentQueue) -> None:
    """What is wrong with content is said by its preparation, with a reason."""
    assert (await document_queue.add(content=b"")).size == 0


async def test_a_deep_queue_refuses(database_url: DatabaseUrl, tmp_path: Path) -> None:
    app = Penstock(database_url=database_url, home=tmp_path, limits={"waiting": 2})
    app.job(queue="documents", max_queue_size=app.settings.limits.waiting)(prepare_document)
    from penstock.blobs import open_store

    async with app:
        taking = Intake(app, open_store(app.settings))
        for collection in ("files", "others"):
            await create_collection(app, collection)
        for number in range(2):
            await taking.accept(Upload("files", f"{number}", pieces(b"1")))

        async def never() -> AsyncIterator[bytes]:
            raise AssertionError("nothing is read")
            yield b""

        with pytest.raises(QueueFull, match="maximum size is 2") as caught:
            await taking.accept(Upload("files", "3", never()))
        assert caught.value.retry_after > timedelta(0)
        assert (await taking.accept(Upload("others", "1", pieces(b"1")))).created  # a collection of its own


async def test_a_deleted_collection_takes_nothing(document_queue: DocumentQueue) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await delete_collection(document_queue.app, "files")

    with pytest.raises(NotFound, match="deleted meanwhile"):
        await document_queue.intake.accept(Upload("files", "a.txt", slow()))
    assert not await document_queue.files()
    assert not await document_queue.rows("documents")


async def test_a_deletion_waits_for_an_intake_that_is_under_way(document_queue: DocumentQueue) -> None:
    """Otherwise a document could be accepted into a collection that is gone."""
    waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with document_queue.app.transaction() as tx:
        assert await intake.sql.look_again.first(tx, tenant="default", collection=1, name="a.txt")
        deleting = asyncio.create_task(delete_collection(document_queue.app, "files"))
        async with asyncio.timeout(10):
            while not (await document_queue.run(waits) or deleting.done()):  # within tx, the view would not change
                await tx.execute("select 1")
        assert not deleting.done()
    assert (await deleting).deleted == 0


async def test_tenants_do_not_see_each_other(document_queue: DocumentQueue) -> None:
    await create_collection(document_queue.app, "files", tenant="acme")
    ours, theirs = await document_queue.add(), await document_queue.add(tenant="acme")
    assert ours.id != theirs.id
    with pytest.raises(NotFound):
        await document_queue.show(theirs.id)
    assert len(await document_queue.rows("blobs")) == 2
    assert {job.fairness_key for job in await document_queue.claim()} == {"files", "acme/files"}


# -- replacing ------------------------------------------------------------------------------------------------------


async def test_a_replacement_is_a_new_version_and_the_old_one_stays_live(document_queue: DocumentQueue) -> None:
    first = await document_queue.ready(content=b"one")
    second = await document_queue.add(content=b"two", replace=True, metadata={"n": 2})
    assert (second.id, second.version, second.created, second.status) == (first.id, 2, True, "queued")
    shown = await document_queue.show(first.id)
    assert (shown.status, shown.version, shown.live_version, shown.metadata) == ("queued", 2, 1, {})
    assert await document_queue.publish(await document_queue.claim_one())
    shown = await document_queue.show(first.id)
    assert (shown.status, shown.live_version, shown.size, shown.metadata) == ("ready", 2, 3, {"n": 2})
    assert await document_queue.events(first.id) == ["accepted", "ready", "replaced", "ready"]


async def test_replace_makes_what_is_not_there(document_queue: DocumentQueue) -> None:
    assert (await document_queue.add(replace=True)).version == 1


async def test_the_same_content_again_changes_nothing(document_queue: DocumentQueue) -> None:
    first = await document_queue.ready()
    again = await document_queue.add(replace=True)
    assert (again.id, again.unchanged, again.created, again.status) == (first.id, True, False, "ready")
    assert len(await document_queue.rows("versions")) == len(await document_queue.files()) == 1


async def test_the_same_content_again_is_another_chance_for_a_failed_one(document_queue: DocumentQueue) -> None:
    first = await document_queue.add()
    await document_queue.bury(await document_queue.claim_one())
    assert await document_queue.status(first.id) == "failed"
    again = await document_queue.add(replace=True)
    assert (again.unchanged, again.status, again.job) == (True, "queued", first.job)
    assert (await document_queue.claim_one()).id == first.job


async def test_a_replaced_job_is_cancelled_and_its_result_refused(document_queue: DocumentQueue) -> None:
    first = await document_queue.add(content=b"one")
    stale = await document_queue.claim_one()
    await document_queue.add(content=b"two", replace=True)
    fresh = await document_queue.claim_one()
    assert (await document_queue.job_queue.find(stale.id))["cancelling"]
    assert not await document_queue.publish(stale)  # it is done, and nobody sees anything of it
    assert await document_queue.status(first.id) == "processing"
    assert await document_queue.publish(fresh)
    assert (await document_queue.show(first.id)).live_version == 2


async def test_replacements_at_once_get_a_version_each(document_queue: DocumentQueue) -> None:
    first = await document_queue.ready(content=b"start")
    everybody = asyncio.Barrier(8)

    async def content(number: int) -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"content %d" % number

    accepted = await asyncio.gather(
        *(document_queue.intake.accept(Upload("files", "a.txt", content(number), replace=True)) for number in range(8))
    )
    assert sorted(each.version for each in accepted) == list(range(2, 10))
    assert {each.id for each in accepted} == {first.id}
    job = await document_queue.claim_one()  # all others are cancelled
    assert await document_queue.publish(job)
    shown = await document_queue.show(first.id)
    assert (shown.status, shown.live_version) == ("ready", 9)
    [newest] = [each for each in accepted if each.version == 9]
    assert shown.digest.hex() == newest.digest


async def test_replacing_and_retrying_at_once(document_queue: DocumentQueue) -> None:
    """Whatever comes first, one job is left, and it is the document's."""
    for turn in range(5):
        first = await document_queue.add(f"{turn}", b"one")
        await document_queue.bury(await document_queue.claim_one())
        await asyncio.gather(
            document_queue.add(f"{turn}", b"two", replace=True),
            retry_document(document_queue.app, first.id),
            return_exceptions=True,
        )
        shown = await document_queue.show(first.id)
        assert (shown.status, shown.version) == ("queued", 2)
        job = await document_queue.claim_one()
        assert job.id == shown.job
        assert await document_queue.publish(job)


# -- many at once -----------------------------------------------------------------------------------------------------


def group_of(**files: bytes) -> list[Upload]:
    return [Upload("files", name, pieces(content), len(content)) for name, content in files.items()]


async def collection_number(document_queue: DocumentQueue) -> int:
    return (await find_collection(document_queue.app, "files")).id


async def test_a_group_is_one_transaction(document_queue: DocumentQueue) -> None:
    uploads = group_of(a=b"one", b=b"two", c=b"two")
    accepted = await BulkIntake(document_queue.intake).accept(
        uploads, collection_id=await collection_number(document_queue)
    )
    assert [one.status for one in accepted if isinstance(one, Accepted)] == ["queued"] * 3
    async with document_queue.app.database.pool.session() as session:
        transactions = await session.fetchval("select count(distinct xmin::text) from penstock.documents")
    assert (transactions, len(await document_queue.rows("documents"))) == (1, 3)
    assert len(await document_queue.rows("blobs")) == len(await document_queue.files()) == 2, (
        "equal content is kept once"
    )
    for one in accepted:
        assert isinstance(one, Accepted)
        shown = await document_queue.show(one.id)
        assert (shown.status, shown.job) == ("queued", one.job)


async def test_a_taken_name_does_not_hold_back_its_group(document_queue: DocumentQueue) -> None:
    there = await document_queue.add("b", b"before")
    uploads = group_of(a=b"one", b=b"two", c=b"three")
    a, b, c = await BulkIntake(document_queue.intake).accept(
        uploads, collection_id=await collection_number(document_queue)
    )
    assert isinstance(a, Accepted)
    assert isinstance(c, Accepted)
    assert isinstance(b, NameTaken)
    assert b.existing == there.id
    assert len(await document_queue.rows("documents")) == len(await document_queue.files()) == 3


async def test_a_group_for_a_collection_that_is_gone(document_queue: DocumentQueue) -> None:
    number = await collection_number(document_queue)
    await delete_collection(document_queue.app, "files")
    outcomes = await BulkIntake(document_queue.intake).accept(group_of(a=b"one", b=b"two"), collection_id=number)
    assert [type(outcome) for outcome in outcomes] == [NotFound, NotFound]
    assert await document_queue.files() == []


async def test_a_lie_about_a_size_is_told_to_the_liar(document_queue: DocumentQueue) -> None:
    uploads = group_of(a=b"one", b=b"two")
    uploads[1] = replace(uploads[1], size=99)
    a, b = await BulkIntake(document_queue.intake).accept(
        uploads, collection_id=await collection_number(document_queue)
    )
    assert isinstance(a, Accepted)
    assert isinstance(b, BadRequest)
    assert len(await document_queue.rows("documents")) == len(await document_queue.files()) == 1


@pytest.mark.parametrize("moment", list(Cut))
async def test_a_group_whose_commit_got_no_answer_loses_no_bytes(
    database_url: DatabaseUrl, tmp_path: Path, moment: Cut
) -> None:
    from penstock.blobs import open_store

    async with PostgresProxy(database_url) as proxy:
        app = Penstock(database_url=proxy.url, home=tmp_path)
        app.job(queue="documents")(prepare_document)
        async with app:
            collection = await create_collection(app, "files")
            document_queue = DocumentQueue(app, open_store(app.settings))
            proxy.rule = lambda asked: (
                moment if asked.is_commit and asked.within("insert into penstock.documents") else None
            )
            outcomes = await BulkIntake(document_queue.intake).accept(
                group_of(a=b"one", b=b"two"), collection_id=collection.id
            )
            assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes)
            proxy.rule = lambda _: None
            assert len(await document_queue.rows("documents")) == (2 if moment is Cut.AFTER else 0)
            assert len(await document_queue.files()) == 2


# -- lost answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", list(Cut))
async def test_a_lost_answer_to_commit_makes_no_duplicate(
    database_url: DatabaseUrl, tmp_path: Path, moment: Cut
) -> None:
    """Cut before the COMMIT, no row is there; cut after it, it is known to be. Bytes that may be needed are not removed."""
    from penstock.blobs import collect, open_store

    async with PostgresProxy(database_url) as proxy:
        app = Penstock(database_url=proxy.url, home=tmp_path)
        app.job(queue="documents")(prepare_document)
        async with app:
            await create_collection(app, "files")
            document_queue = DocumentQueue(app, open_store(app.settings))

            def rule(asked: Asked) -> Cut | None:
                return moment if asked.is_commit and asked.within("insert into penstock.documents") else None

            proxy.rule = rule
            if moment is Cut.AFTER:
                accepted = await document_queue.add(idempotency_key="k")
                assert await document_queue.status(accepted.id) == "queued"
                assert (await document_queue.add(idempotency_key="k")).id == accepted.id
            else:
                with pytest.raises(ConnectionLost):
                    await document_queue.add(idempotency_key="k")
                assert await document_queue.rows("documents") == []
                proxy.rule = lambda _: None
                accepted = await document_queue.add(idempotency_key="k")
                assert len(await document_queue.files()) == 2
                await collect(app.database, document_queue.store, timedelta(microseconds=1))
            assert len(await document_queue.rows("documents")) == len(await document_queue.files()) == 1


async def test_bytes_that_were_lost_come_back_with_the_same_content(document_queue: DocumentQueue) -> None:
    """Also those of which only a part is left; that part is nobody's then, and is collected."""
    first = await document_queue.add("a.txt", b"the same")
    [lost] = await document_queue.files()
    await document_queue.store.remove(lost)
    again = await document_queue.add("a.txt", b"the same", replace=True)
    assert (again.id, again.unchanged) == (first.id, True)
    [found] = await document_queue.files()
    [blob] = await document_queue.rows("blobs")
    assert (found != lost, blob["key"]) == (True, found)
    (document_queue.app.settings.home / "blobs" / found[:2] / found).write_bytes(b"the")
    await document_queue.add("b.txt", b"the same")
    [blob] = await document_queue.rows("blobs")
    assert blob["key"] != found
    assert (document_queue.app.settings.home / "blobs" / blob["key"][:2] / blob["key"]).read_bytes() == b"the same"
