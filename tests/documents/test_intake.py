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
    intake,
    retry_document,
)
from penstock.documents.together import Together
from penstock.engine import Penstock
from penstock.errors import BadRequest, BadValue, BodyTooLarge, ConnectionLost, NameTaken, NotFound, QueueFull
from penstock.settings import DatabaseUrl
from tests.documents.conftest import Office, pieces, prepare_document
from tests.postgres_proxy import Asked, Cut, PostgresProxy


async def test_an_upload_becomes_a_blob_a_document_a_version_a_job_and_an_event(office: Office) -> None:
    accepted = await office.add("reports/a.txt", b"water", uploaded_by="ada", metadata={"client": "Mill"})

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
    shown = await office.show(accepted.id)
    assert (shown.status, shown.uploaded_by, shown.metadata, shown.job) == (
        "queued",
        "ada",
        {"client": "Mill"},
        accepted.job,
    )
    assert await office.files() == [shown.key]
    assert b"".join([piece async for piece in office.store.read(shown.key)]) == b"water"
    job = await office.claim_one()
    assert job.args == f'{{"document":{accepted.id},"version":{shown.version_id}}}'
    assert await office.events(accepted.id) == ["accepted"]


async def test_the_reply_says_whether_a_worker_serves_it(office: Office) -> None:
    worker = await office.worker()
    assert (await office.add("1")).message == "accepted"
    await office.shop.advance(3600)
    assert not (await office.add("2")).served  # silent for longer than its lease
    await office.shop.beat(worker)
    assert (await office.add("3")).served
    await office.run("update penstock.workers set draining = true")
    assert not (await office.add("4")).served


async def test_a_taken_name_is_refused_before_the_upload(office: Office) -> None:
    first = await office.add()

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("nothing is read")
        yield b""

    with pytest.raises(NameTaken, match=f"its number is {first.id}") as caught:
        await office.intake.accept(Upload("files", "a.txt", never()))
    assert caught.value.existing == first.id
    with pytest.raises(NotFound, match="no collection nowhere"):
        await office.intake.accept(Upload("nowhere", "a.txt", never()))
    with pytest.raises(BodyTooLarge, match=r"limits\.bytes"):
        await office.intake.accept(Upload("files", "b.txt", never(), size=2_000_000))
    with pytest.raises(BadValue, match="part"):
        await office.intake.accept(Upload("files", "../b.txt", never()))


async def test_twenty_at_once_with_one_name(office: Office) -> None:
    """All have looked before any has written: the index decides."""
    everybody = asyncio.Barrier(20)

    async def content(number: int) -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"content %d" % number

    async def accept(number: int) -> Accepted | NameTaken:
        try:
            return await office.intake.accept(Upload("files", "one.txt", content(number)))
        except NameTaken as error:
            return error

    ended = await asyncio.gather(*(accept(number) for number in range(20)))
    [winner] = [each for each in ended if isinstance(each, Accepted)]
    assert {each.existing for each in ended if isinstance(each, NameTaken)} == {winner.id}
    assert len(await office.rows("documents")) == len(await office.rows("jobs")) == len(await office.rows("blobs")) == 1
    assert len(await office.files()) == 1


async def test_the_loser_is_told_whether_its_content_was_the_same(office: Office) -> None:
    async def slow(content: bytes) -> AsyncIterator[bytes]:
        yield content
        await office.add("a.txt", b"water")

    with pytest.raises(AlreadyThere, match="with the same content") as caught:
        await office.intake.accept(Upload("files", "a.txt", slow(b"water")))
    assert caught.value.digest_equal is True


async def test_the_same_content_is_kept_once(office: Office) -> None:
    """Also when it comes ten times at once, under ten names."""
    everybody = asyncio.Barrier(10)

    async def content() -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"water"

    accepted = await asyncio.gather(
        *(office.intake.accept(Upload("files", f"{number}.txt", content())) for number in range(10))
    )
    assert len({each.id for each in accepted}) == 10
    [blob] = await office.rows("blobs")
    assert await office.files() == [blob["key"]]


async def test_an_interrupted_upload_leaves_nothing(office: Office) -> None:
    begun = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield b"x" * 700_000
        yield b"x" * 700_000 if office.app.settings.limits.bytes > 1_400_000 else b"x"
        begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(office.intake.accept(Upload("files", "a.txt", stuck())))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def breaks() -> AsyncIterator[bytes]:
        yield b"x" * 100
        raise ConnectionResetError("the client is gone")

    with pytest.raises(ConnectionResetError):
        await office.intake.accept(Upload("files", "a.txt", breaks()))
    assert await office.files() == []
    assert await office.rows("documents") == await office.rows("blobs") == await office.rows("jobs") == []


@pytest.mark.parametrize("announced", [4, 6])
async def test_a_body_of_another_size_than_announced(office: Office, announced: int) -> None:
    with pytest.raises(BadRequest, match=f"{announced} bytes were announced, and 5 came"):
        await office.add(size=announced)
    assert not await office.files()
    assert not await office.rows("documents")
    assert (await office.add(size=5)).size == 5


async def test_more_bytes_than_the_limit(office: Office) -> None:
    with pytest.raises(BodyTooLarge, match=r"limits\.bytes"):
        await office.add(content=b"x" * 1_048_577)
    assert await office.files() == []
    assert (await office.add(content=b"x" * 1_048_576)).size == 1_048_576


async def test_an_empty_document_is_accepted(office: Office) -> None:
    """What is wrong with content is said by its preparation, with a reason."""
    assert (await office.add(content=b"")).size == 0


async def test_a_deep_queue_refuses(database_url: DatabaseUrl, tmp_path: Path) -> None:
    app = Penstock(database_url=database_url, home=tmp_path, limits={"waiting": 2})
    app.job(queue="documents", depth=app.settings.limits.waiting)(prepare_document)
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

        with pytest.raises(QueueFull, match="depth is 2") as caught:
            await taking.accept(Upload("files", "3", never()))
        assert caught.value.retry_after > timedelta(0)
        assert (await taking.accept(Upload("others", "1", pieces(b"1")))).created  # a collection of its own


async def test_a_deleted_collection_takes_nothing(office: Office) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await delete_collection(office.app, "files")

    with pytest.raises(NotFound, match="deleted meanwhile"):
        await office.intake.accept(Upload("files", "a.txt", slow()))
    assert not await office.files()
    assert not await office.rows("documents")


async def test_a_deletion_waits_for_an_intake_that_is_under_way(office: Office) -> None:
    """Otherwise a document could be accepted into a collection that is gone."""
    waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with office.app.transaction() as tx:
        assert await intake.sql.look_again.first(tx, tenant="default", collection=1, name="a.txt")
        deleting = asyncio.create_task(delete_collection(office.app, "files"))
        async with asyncio.timeout(10):
            while not (await office.run(waits) or deleting.done()):  # within tx, the view would not change
                await tx.execute("select 1")
        assert not deleting.done()
    assert await deleting == 0


async def test_tenants_do_not_see_each_other(office: Office) -> None:
    await create_collection(office.app, "files", tenant="acme")
    ours, theirs = await office.add(), await office.add(tenant="acme")
    assert ours.id != theirs.id
    with pytest.raises(NotFound):
        await office.show(theirs.id)
    assert len(await office.rows("blobs")) == 2
    assert {job.share for job in await office.claim()} == {"files", "acme/files"}


# -- replacing ------------------------------------------------------------------------------------------------------


async def test_a_replacement_is_a_new_version_and_the_old_one_stays_live(office: Office) -> None:
    first = await office.ready(content=b"one")
    second = await office.add(content=b"two", replace=True, metadata={"n": 2})
    assert (second.id, second.version, second.created, second.status) == (first.id, 2, True, "queued")
    shown = await office.show(first.id)
    assert (shown.status, shown.version, shown.live_version, shown.metadata) == ("queued", 2, 1, {})
    assert await office.publish(await office.claim_one())
    shown = await office.show(first.id)
    assert (shown.status, shown.live_version, shown.size, shown.metadata) == ("ready", 2, 3, {"n": 2})
    assert await office.events(first.id) == ["accepted", "ready", "replaced", "ready"]


async def test_replace_makes_what_is_not_there(office: Office) -> None:
    assert (await office.add(replace=True)).version == 1


async def test_the_same_content_again_changes_nothing(office: Office) -> None:
    first = await office.ready()
    again = await office.add(replace=True)
    assert (again.id, again.unchanged, again.created, again.status) == (first.id, True, False, "ready")
    assert len(await office.rows("versions")) == len(await office.files()) == 1


async def test_the_same_content_again_is_another_chance_for_a_failed_one(office: Office) -> None:
    first = await office.add()
    await office.bury(await office.claim_one())
    assert await office.status(first.id) == "failed"
    again = await office.add(replace=True)
    assert (again.unchanged, again.status, again.job) == (True, "queued", first.job)
    assert (await office.claim_one()).id == first.job


async def test_a_replaced_job_is_cancelled_and_its_result_refused(office: Office) -> None:
    first = await office.add(content=b"one")
    stale = await office.claim_one()
    await office.add(content=b"two", replace=True)
    fresh = await office.claim_one()
    assert (await office.shop.find(stale.id))["cancelling"]
    assert not await office.publish(stale)  # it is done, and nobody sees anything of it
    assert await office.status(first.id) == "processing"
    assert await office.publish(fresh)
    assert (await office.show(first.id)).live_version == 2


async def test_replacements_at_once_get_a_version_each(office: Office) -> None:
    first = await office.ready(content=b"start")
    everybody = asyncio.Barrier(8)

    async def content(number: int) -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"content %d" % number

    accepted = await asyncio.gather(
        *(office.intake.accept(Upload("files", "a.txt", content(number), replace=True)) for number in range(8))
    )
    assert sorted(each.version for each in accepted) == list(range(2, 10))
    assert {each.id for each in accepted} == {first.id}
    job = await office.claim_one()  # all others are cancelled
    assert await office.publish(job)
    shown = await office.show(first.id)
    assert (shown.status, shown.live_version) == ("ready", 9)
    [newest] = [each for each in accepted if each.version == 9]
    assert shown.digest.hex() == newest.digest


async def test_replacing_and_retrying_at_once(office: Office) -> None:
    """Whatever comes first, one job is left, and it is the document's."""
    for turn in range(5):
        first = await office.add(f"{turn}", b"one")
        await office.bury(await office.claim_one())
        await asyncio.gather(
            office.add(f"{turn}", b"two", replace=True), retry_document(office.app, first.id), return_exceptions=True
        )
        shown = await office.show(first.id)
        assert (shown.status, shown.version) == ("queued", 2)
        job = await office.claim_one()
        assert job.id == shown.job
        assert await office.publish(job)


# -- many at once -----------------------------------------------------------------------------------------------------


def group_of(**files: bytes) -> list[Upload]:
    return [Upload("files", name, pieces(content), len(content)) for name, content in files.items()]


async def collection_number(office: Office) -> int:
    return (await find_collection(office.app, "files")).id


async def test_a_group_is_one_transaction(office: Office) -> None:
    uploads = group_of(a=b"one", b=b"two", c=b"two")
    accepted = await Together(office.intake).accept(uploads, collection_id=await collection_number(office))
    assert [one.status for one in accepted if isinstance(one, Accepted)] == ["queued"] * 3
    async with office.app.database.pool.session() as session:
        transactions = await session.fetchval("select count(distinct xmin::text) from penstock.documents")
    assert (transactions, len(await office.rows("documents"))) == (1, 3)
    assert len(await office.rows("blobs")) == len(await office.files()) == 2, "equal content is kept once"
    for one in accepted:
        assert isinstance(one, Accepted)
        shown = await office.show(one.id)
        assert (shown.status, shown.job) == ("queued", one.job)


async def test_a_taken_name_does_not_hold_back_its_group(office: Office) -> None:
    there = await office.add("b", b"before")
    uploads = group_of(a=b"one", b=b"two", c=b"three")
    a, b, c = await Together(office.intake).accept(uploads, collection_id=await collection_number(office))
    assert isinstance(a, Accepted)
    assert isinstance(c, Accepted)
    assert isinstance(b, NameTaken)
    assert b.existing == there.id
    assert len(await office.rows("documents")) == len(await office.files()) == 3


async def test_a_group_for_a_collection_that_is_gone(office: Office) -> None:
    number = await collection_number(office)
    await delete_collection(office.app, "files")
    outcomes = await Together(office.intake).accept(group_of(a=b"one", b=b"two"), collection_id=number)
    assert [type(outcome) for outcome in outcomes] == [NotFound, NotFound]
    assert await office.files() == []


async def test_a_lie_about_a_size_is_told_to_the_liar(office: Office) -> None:
    uploads = group_of(a=b"one", b=b"two")
    uploads[1] = replace(uploads[1], size=99)
    a, b = await Together(office.intake).accept(uploads, collection_id=await collection_number(office))
    assert isinstance(a, Accepted)
    assert isinstance(b, BadRequest)
    assert len(await office.rows("documents")) == len(await office.files()) == 1


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
            office = Office(app, open_store(app.settings))
            proxy.rule = lambda asked: (
                moment if asked.is_commit and asked.within("insert into penstock.documents") else None
            )
            outcomes = await Together(office.intake).accept(group_of(a=b"one", b=b"two"), collection_id=collection.id)
            assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes)
            proxy.rule = lambda _: None
            assert len(await office.rows("documents")) == (2 if moment is Cut.AFTER else 0)
            assert len(await office.files()) == 2


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
            office = Office(app, open_store(app.settings))

            def rule(asked: Asked) -> Cut | None:
                return moment if asked.is_commit and asked.within("insert into penstock.documents") else None

            proxy.rule = rule
            if moment is Cut.AFTER:
                accepted = await office.add(idempotency_key="k")
                assert await office.status(accepted.id) == "queued"
                assert (await office.add(idempotency_key="k")).id == accepted.id
            else:
                with pytest.raises(ConnectionLost):
                    await office.add(idempotency_key="k")
                assert await office.rows("documents") == []
                proxy.rule = lambda _: None
                accepted = await office.add(idempotency_key="k")
                assert len(await office.files()) == 2
                await collect(app.database, office.store, timedelta(microseconds=1))
            assert len(await office.rows("documents")) == len(await office.files()) == 1


async def test_bytes_that_were_lost_come_back_with_the_same_content(office: Office) -> None:
    """Also those of which only a part is left; that part is nobody's then, and is collected."""
    first = await office.add("a.txt", b"the same")
    [lost] = await office.files()
    await office.store.remove(lost)
    again = await office.add("a.txt", b"the same", replace=True)
    assert (again.id, again.unchanged) == (first.id, True)
    [found] = await office.files()
    [blob] = await office.rows("blobs")
    assert (found != lost, blob["key"]) == (True, found)
    (office.app.settings.home / "blobs" / found[:2] / found).write_bytes(b"the")
    await office.add("b.txt", b"the same")
    [blob] = await office.rows("blobs")
    assert blob["key"] != found
    assert (office.app.settings.home / "blobs" / blob["key"][:2] / blob["key"]).read_bytes() == b"the same"
