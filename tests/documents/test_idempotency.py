"""A request that is sent again gets the first one's answer, and does nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.documents import Upload, sweep_answers
from penstock.documents.ingest import idempotency
from penstock.errors import BadValue, BodyTooLarge, KeyInFlight, KeyReused
from tests.documents.conftest import DocumentQueue

DAY = 86_400


async def test_the_same_request_again_gets_the_same_answer(document_queue: DocumentQueue) -> None:
    first = await document_queue.add(idempotency_key="k")
    await document_queue.publish(await document_queue.claim_one())
    assert await document_queue.add(idempotency_key="k") == first  # also when the document has changed since
    assert len(await document_queue.rows("documents")) == len(await document_queue.files()) == 1
    assert len(await document_queue.rows("versions")) == 1


@pytest.mark.parametrize(
    "other", [{"content": b"other"}, {"name": "b.txt"}, {"metadata": {"a": 1}}, {"replace": True}], ids=str
)
async def test_a_key_with_another_request_is_refused(document_queue: DocumentQueue, other: dict[str, object]) -> None:
    await document_queue.add(idempotency_key="k")
    with pytest.raises(KeyReused, match="another request"):
        await document_queue.add(**{"idempotency_key": "k", **other})  # type: ignore[arg-type]
    assert len(await document_queue.rows("documents")) == 1


async def test_a_key_belongs_to_its_tenant(document_queue: DocumentQueue) -> None:
    from penstock.documents import create_collection

    await create_collection(document_queue.app, "files", tenant="acme")
    ours = await document_queue.add(idempotency_key="k")
    assert (await document_queue.add(idempotency_key="k", tenant="acme")).id != ours.id


async def test_two_at_once_with_one_key(document_queue: DocumentQueue) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        await go.wait()
        yield b"water"

    first = asyncio.create_task(document_queue.intake.accept(Upload("files", "a.txt", slow(), idempotency_key="k")))
    await begun.wait()
    with pytest.raises(KeyInFlight, match="still under way"):
        await document_queue.add(idempotency_key="k")
    go.set()
    assert await document_queue.add(idempotency_key="k2", name="b.txt") != await first
    assert await document_queue.add(idempotency_key="k") == await first


async def test_many_at_once_with_one_key_make_one_document(document_queue: DocumentQueue) -> None:
    ended = await asyncio.gather(*(document_queue.add(idempotency_key="k") for _ in range(20)), return_exceptions=True)
    accepted = [each for each in ended if not isinstance(each, BaseException)]
    assert accepted
    assert len({each.id for each in accepted}) == 1
    assert all(isinstance(each, KeyInFlight) for each in ended if isinstance(each, BaseException))
    assert len(await document_queue.rows("documents")) == len(await document_queue.files()) == 1


async def test_a_failed_request_frees_its_key(document_queue: DocumentQueue) -> None:
    with pytest.raises(BodyTooLarge):
        await document_queue.add(content=b"x" * 2_000_000, idempotency_key="k")
    assert await document_queue.rows("idempotency") == []
    assert (await document_queue.add(idempotency_key="k")).created


async def test_the_mark_of_a_dead_process_expires(document_queue: DocumentQueue) -> None:
    """It has left its mark, and will never free it; whoever comes after it is told so only while it may be alive."""
    await document_queue.run("insert into penstock.idempotency (route, key, holder) values ('upload', 'k', 'dead')")
    with pytest.raises(KeyInFlight):
        await document_queue.add(idempotency_key="k")
    await document_queue.job_queue.advance(idempotency.DEAD_AFTER.total_seconds() + 1)
    assert (await document_queue.add(idempotency_key="k")).created


async def test_who_was_taken_for_dead_does_not_commit(document_queue: DocumentQueue) -> None:
    """A frozen process wakes up after somebody took its key: there must not be two documents."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        await go.wait()
        yield b"water"

    frozen = asyncio.create_task(document_queue.intake.accept(Upload("files", "a.txt", slow(), idempotency_key="k")))
    await begun.wait()
    await document_queue.job_queue.advance(idempotency.DEAD_AFTER.total_seconds() + 1)
    other = await document_queue.add(name="b.txt", idempotency_key="k")
    go.set()
    with pytest.raises(KeyInFlight):
        await frozen
    assert [row["id"] for row in await document_queue.rows("documents")] == [other.id]
    [row] = await document_queue.rows("idempotency")
    assert row["status"] == 202


async def test_a_holder_that_lives_keeps_its_key(
    document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "RENEW_EVERY", 0.01)
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        await go.wait()
        yield b"water"

    first = asyncio.create_task(document_queue.intake.accept(Upload("files", "a.txt", slow(), idempotency_key="k")))
    await begun.wait()
    await document_queue.job_queue.advance(idempotency.DEAD_AFTER.total_seconds() + 1)
    renewed = "select from penstock.idempotency where begun_at > penstock.now() - interval '1 min'"
    async with asyncio.timeout(10):
        while not await document_queue.run(renewed):  # noqa: ASYNC110  the holder renews it in the table, and tells nobody
            await asyncio.sleep(0.01)
    with pytest.raises(KeyInFlight):
        await document_queue.add(idempotency_key="k")
    go.set()
    assert (await first).created


async def test_answers_are_kept_for_a_day(document_queue: DocumentQueue) -> None:
    await document_queue.add(idempotency_key="k")
    await document_queue.job_queue.advance(DAY - 60)
    assert await sweep_answers(document_queue.app.database) == 0
    assert (await document_queue.add(idempotency_key="k")).created
    await document_queue.job_queue.advance(120)
    assert await sweep_answers(document_queue.app.database) == 1
    assert await document_queue.rows("idempotency") == []


@pytest.mark.parametrize("key", ["", "k" * 256, "a\nb", "schlüssel"])
async def test_a_key_that_cannot_be(document_queue: DocumentQueue, key: str) -> None:
    with pytest.raises(BadValue, match="Idempotency-Key"):
        await document_queue.add(idempotency_key=key)
