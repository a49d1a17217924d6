"""Versions: which one is live, which have failed, what is said about them, and whose bytes are downloaded."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.documents import (
    Upload,
    cancel_document,
    delete_document,
    explain_document,
    retry_document,
)
from penstock.documents.queries import blob_of, list_versions
from penstock.engine.job import Cancelled
from penstock.errors import NotFound, WrongState
from penstock.search import CollectionRef, Query
from penstock.search.snapshot import take_snapshot
from tests.documents.conftest import DocumentQueue

DAMAGED = ("Corrupt", "the file is damaged.")


async def states(document_queue: DocumentQueue, document: int) -> list[str]:
    found = await list_versions(document_queue.app, document)
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    return [each.state for each in found]


async def why(document_queue: DocumentQueue, document: int) -> str:
    return (await explain_document(document_queue.app, document)).sentence


async def content_of(document_queue: DocumentQueue, document: int, version: int | None = None) -> bytes:
    found = await blob_of(document_queue.app, document, version)
    return b"".join([piece async for piece in document_queue.store.read(found.key, 0, found.size)])


async def replace_and_fail(document_queue: DocumentQueue, **more: Any) -> int:
    """Version 1 is live, version 2 has failed; the number of the document."""
    made = await document_queue.ready(content=b"one")
    await document_queue.add(content=b"two", replace=True, **more)
    await document_queue.bury(await document_queue.claim_one(), *DAMAGED)
    return made.id


# -- one after the other --------------------------------------------------------------------------------------------


async def test_the_answer_says_which_version_is_found_meanwhile(document_queue: DocumentQueue) -> None:
    await document_queue.worker()
    assert (await document_queue.add(content=b"one")).message == "accepted"
    assert (await document_queue.add(content=b"two", replace=True)).message == "accepted as version 2"
    await document_queue.publish(await document_queue.claim_one())
    third = await document_queue.add(content=b"three", replace=True)
    assert third.message == "accepted as version 3; version 2 is found until it is ready"
    fourth = await document_queue.add(content=b"four", replace=True)
    assert fourth.message == "accepted as version 4; version 2 is found until it is ready"


async def test_versions_are_listed_with_what_became_of_them(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready(content=b"one")
    assert await states(document_queue, made.id) == ["live"]
    await document_queue.add(content=b"three", replace=True)
    first, second = await list_versions(document_queue.app, made.id)
    assert (first.state, second.state, second.size, second.prepared_at) == ("live", "preparing", 5, None)
    assert first.prepared_at is not None
    assert second.digest != first.digest
    await document_queue.publish(await document_queue.claim_one())
    assert await states(document_queue, made.id) == ["dead", "live"]
    await document_queue.add(content=b"four", replace=True)
    await document_queue.bury(await document_queue.claim_one())
    assert await states(document_queue, made.id) == ["dead", "live", "failed"]
    await document_queue.add(content=b"five", replace=True)
    assert await states(document_queue, made.id) == ["dead", "live", "dead", "preparing"]
    assert [each.number for each in await list_versions(document_queue.app, made.id, after=1, most=2)] == [2, 3]
    await delete_document(document_queue.app, made.id)
    assert await states(document_queue, made.id) == ["dead"] * 4


async def test_versions_of_nobody_and_of_others(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready()
    for wanted, tenant in ((made.id + 1000, "default"), (2**70, "default"), (-1, "default"), (made.id, "acme")):
        with pytest.raises(NotFound, match="does not exist"):
            await list_versions(document_queue.app, wanted, tenant=tenant)
        with pytest.raises(NotFound, match="does not exist"):
            await blob_of(document_queue.app, wanted, tenant=tenant)
    assert await list_versions(document_queue.app, made.id, after=2**40) == []


# -- a new version that fails ---------------------------------------------------------------------------------------


async def test_a_failed_version_leaves_the_old_one_live_and_says_so(document_queue: DocumentQueue) -> None:
    number = await replace_and_fail(document_queue)
    shown = await document_queue.show(number)
    assert (shown.status, shown.version, shown.live_version, shown.chunks) == ("failed", 2, 1, 2)
    assert await why(document_queue, number) == (
        f"Document {number} (a.txt): version 2 failed in the step read (Corrupt): the file is damaged; version 1 is "
        "still found. Add an intact copy with `--replace`."
    )
    assert await states(document_queue, number) == ["live", "failed"]
    assert await document_queue.rows("hidden_versions") == []


async def test_it_is_tried_again_and_then_replaced_by_a_good_one(document_queue: DocumentQueue) -> None:
    number = await replace_and_fail(document_queue)
    await retry_document(document_queue.app, number)
    assert "This is about version 2; version 1 is found until it is ready." in await why(document_queue, number)
    await document_queue.bury(await document_queue.claim_one(), *DAMAGED)
    again = await document_queue.add(content=b"two", replace=True)
    assert (again.version, again.unchanged, again.status) == (2, True, "queued")
    await document_queue.bury(await document_queue.claim_one(), *DAMAGED)
    assert (await document_queue.add(content=b"three", replace=True)).version == 3
    assert await document_queue.publish(await document_queue.claim_one())
    shown = await document_queue.show(number)
    assert (shown.status, shown.live_version, shown.error) == ("ready", 3, None)
    assert await states(document_queue, number) == ["dead", "dead", "live"]


async def test_back_to_what_is_live_is_a_version_of_its_own(document_queue: DocumentQueue) -> None:
    """The newest is what counts: who sends the old content again wants it to be the newest."""
    number = await replace_and_fail(document_queue)
    back = await document_queue.add(content=b"one", replace=True)
    assert (back.version, back.unchanged) == (3, False)
    assert len(await document_queue.rows("blobs")) == 2
    await document_queue.publish(await document_queue.claim_one())
    assert await states(document_queue, number) == ["dead", "dead", "live"]


async def test_metadata_change_with_what_is_found(document_queue: DocumentQueue) -> None:
    """What was said of a version that failed is said of nothing that anybody finds."""
    number = await replace_and_fail(document_queue, metadata={"year": 2025}, uploaded_by="ada")
    shown = await document_queue.show(number)
    assert (shown.live_version, shown.metadata, shown.uploaded_by) == (1, {}, "")
    assert await allowed(document_queue, {"year": 2025}) == []
    await document_queue.add(content=b"three", replace=True, metadata={"year": 2026}, uploaded_by="eve")
    await document_queue.publish(await document_queue.claim_one())
    shown = await document_queue.show(number)
    assert (shown.live_version, shown.metadata, shown.uploaded_by) == (3, {"year": 2026}, "eve")
    assert await allowed(document_queue, {"year": 2026}) == [shown.live_id]


async def allowed(document_queue: DocumentQueue, metadata: dict[str, Any]) -> list[int]:
    """Versions that search may find with this filter."""
    query = Query("water", [CollectionRef(1, "static", "english")], metadata=metadata)
    async with document_queue.app.database.pool.session() as session:
        moment = await take_snapshot(session, query)
        return list(moment.allowed or [])


async def test_the_same_content_with_other_metadata_changes_nothing_and_says_so(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready(metadata={"year": 2024})
    again = await document_queue.add(replace=True, metadata={"year": 2025})
    assert again.message == "unchanged: the same content is there already; its metadata stay as they were"
    assert (await document_queue.show(made.id)).metadata == {"year": 2024}
    again = await document_queue.add(replace=True, metadata={"year": 2024})
    assert again.message == "unchanged: the same content is there already"


# -- cancelling, and replacing again --------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
async def test_cancelling_a_replacement_leaves_the_old_one_live(document_queue: DocumentQueue, running: bool) -> None:
    made = await document_queue.ready(content=b"one")
    await document_queue.add(content=b"two", replace=True)
    job = await document_queue.claim_one() if running else None
    await cancel_document(document_queue.app, made.id)
    if job is not None:
        await document_queue.job_queue.settle(await document_queue.worker(), (job, Cancelled()))
    shown = await document_queue.show(made.id)
    assert (shown.status, shown.version, shown.live_version) == ("failed", 2, 1)
    sentence = await why(document_queue, made.id)
    assert ": version 2 failed (Cancelled): cancelled" in sentence
    assert "; version 1 is still found. To prepare it after all: `penstock documents retry" in sentence
    await retry_document(document_queue.app, made.id)
    assert await states(document_queue, made.id) == ["live", "preparing"]
    assert await document_queue.publish(await document_queue.claim_one())
    assert await states(document_queue, made.id) == ["dead", "live"]
    with pytest.raises(WrongState, match="nothing to cancel"):
        await cancel_document(document_queue.app, made.id)


async def test_the_first_version_is_replaced_while_it_is_processed(document_queue: DocumentQueue) -> None:
    made = await document_queue.add(content=b"one")
    stale = await document_queue.claim_one()
    await document_queue.add(content=b"two", replace=True)
    assert await states(document_queue, made.id) == ["dead", "preparing"]
    fresh = await document_queue.claim_one()
    assert await document_queue.publish(fresh)
    assert not await document_queue.publish(stale), "it comes too late, and after a newer one"
    assert await states(document_queue, made.id) == ["dead", "live"]


async def test_replaced_twice_quickly(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready(content=b"one")
    await document_queue.add(content=b"two", replace=True)
    second = await document_queue.claim_one()
    await document_queue.add(content=b"three", replace=True)
    third = await document_queue.claim_one()
    assert not await document_queue.publish(second)
    assert await states(document_queue, made.id) == ["live", "dead", "preparing"]
    assert await document_queue.publish(third)
    assert await states(document_queue, made.id) == ["dead", "dead", "live"]


async def test_replacing_publishing_and_cancelling_at_once(document_queue: DocumentQueue) -> None:
    """Whatever comes first: one version is live at the end, or the old one is, and the newest says why it is not."""
    for turn in range(6):
        made = await document_queue.ready(f"{turn}", b"one")
        await document_queue.add(f"{turn}", b"two", replace=True)
        second = await document_queue.claim_one()
        await asyncio.gather(
            document_queue.publish(second),
            document_queue.add(f"{turn}", b"three", replace=True),
            cancel_document(document_queue.app, made.id),
            return_exceptions=True,
        )
        shown = await document_queue.show(made.id)
        assert shown.version == 3
        assert shown.live_version in {1, 2}
        assert (await states(document_queue, made.id)).count("live") == 1
        if shown.status == "failed":
            await retry_document(document_queue.app, made.id)
        [third] = [job for job in await document_queue.claim() if job.id == (await document_queue.show(made.id)).job]
        assert await document_queue.publish(third)
        assert await states(document_queue, made.id) == ["dead", "dead", "live"]


async def test_ten_clients_replace_one_document_with_the_same_content(document_queue: DocumentQueue) -> None:
    """One of them makes the version, for the others it is there already."""
    made = await document_queue.ready(content=b"one")
    everybody = asyncio.Barrier(10)

    async def content() -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"two"

    accepted = await asyncio.gather(
        *(document_queue.intake.accept(Upload("files", "a.txt", content(), replace=True)) for _ in range(10))
    )
    assert {(each.id, each.version) for each in accepted} == {(made.id, 2)}
    assert sorted(each.unchanged for each in accepted) == [False] + [True] * 9
    assert len({each.job for each in accepted}) == 1
    assert len(await document_queue.files()) == 2


# -- bytes ----------------------------------------------------------------------------------------------------------


async def test_bytes_are_those_of_the_newest_version_or_of_the_asked_one(document_queue: DocumentQueue) -> None:
    number = await replace_and_fail(document_queue)
    assert await content_of(document_queue, number) == b"two"
    assert (await blob_of(document_queue.app, number)).media_type is None, "what was found is about version 1"
    assert await content_of(document_queue, number, 1) == b"one"
    assert (await blob_of(document_queue.app, number, 1)).media_type == "text/plain"
    for missing in (0, 3, -1, 2**40):
        with pytest.raises(NotFound, match=rf"has no version {missing} to download: it has versions 1 to 2\."):
            await blob_of(document_queue.app, number, missing)
    await delete_document(document_queue.app, number)
    with pytest.raises(NotFound, match="is deleted"):
        await blob_of(document_queue.app, number)
