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
from penstock.documents.versions import blob_of, list_versions
from penstock.engine.outcome import Cancelled
from penstock.errors import NotFound, WrongState
from penstock.search import CollectionRef, Query
from penstock.search.moment import look_around
from tests.documents.conftest import Office

DAMAGED = ("Corrupt", "the file is damaged.")


async def states(office: Office, document: int) -> list[str]:
    found = await list_versions(office.app, document)
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    return [each.state for each in found]


async def why(office: Office, document: int) -> str:
    return (await explain_document(office.app, document)).sentence


async def content_of(office: Office, document: int, version: int | None = None) -> bytes:
    found = await blob_of(office.app, document, version)
    return b"".join([piece async for piece in office.store.read(found.key, 0, found.size)])


async def replace_and_fail(office: Office, **more: Any) -> int:
    """Version 1 is live, version 2 has failed; the number of the document."""
    made = await office.ready(content=b"one")
    await office.add(content=b"two", replace=True, **more)
    await office.bury(await office.claim_one(), *DAMAGED)
    return made.id


# -- one after the other --------------------------------------------------------------------------------------------


async def test_the_answer_says_which_version_is_found_meanwhile(office: Office) -> None:
    await office.worker()
    assert (await office.add(content=b"one")).message == "accepted"
    assert (await office.add(content=b"two", replace=True)).message == "accepted as version 2"
    await office.publish(await office.claim_one())
    third = await office.add(content=b"three", replace=True)
    assert third.message == "accepted as version 3; version 2 is found until it is ready"
    fourth = await office.add(content=b"four", replace=True)
    assert fourth.message == "accepted as version 4; version 2 is found until it is ready"


async def test_versions_are_listed_with_what_became_of_them(office: Office) -> None:
    made = await office.ready(content=b"one")
    assert await states(office, made.id) == ["live"]
    await office.add(content=b"three", replace=True)
    first, second = await list_versions(office.app, made.id)
    assert (first.state, second.state, second.size, second.prepared_at) == ("live", "preparing", 5, None)
    assert first.prepared_at is not None
    assert second.answer()["digest"] == second.digest.hex() != first.digest.hex()
    assert second.answer()["prepared_at"] is None
    await office.publish(await office.claim_one())
    assert await states(office, made.id) == ["dead", "live"]
    await office.add(content=b"four", replace=True)
    await office.bury(await office.claim_one())
    assert await states(office, made.id) == ["dead", "live", "failed"]
    await office.add(content=b"five", replace=True)
    assert await states(office, made.id) == ["dead", "live", "dead", "preparing"]
    assert [each.number for each in await list_versions(office.app, made.id, after=1, most=2)] == [2, 3]
    await delete_document(office.app, made.id)
    assert await states(office, made.id) == ["dead"] * 4


async def test_versions_of_nobody_and_of_others(office: Office) -> None:
    made = await office.ready()
    for wanted, tenant in ((made.id + 1000, "default"), (2**70, "default"), (-1, "default"), (made.id, "acme")):
        with pytest.raises(NotFound, match="There is no document"):
            await list_versions(office.app, wanted, tenant=tenant)
        with pytest.raises(NotFound, match="There is no document"):
            await blob_of(office.app, wanted, tenant=tenant)
    assert await list_versions(office.app, made.id, after=2**40) == []


# -- a new version that fails ---------------------------------------------------------------------------------------


async def test_a_failed_version_leaves_the_old_one_live_and_says_so(office: Office) -> None:
    number = await replace_and_fail(office)
    shown = await office.show(number)
    assert (shown.status, shown.version, shown.live_version, shown.chunks) == ("failed", 2, 1, 2)
    assert await why(office, number) == (
        f"Document {number} (a.txt): version 2 failed in the step read (Corrupt): the file is damaged; version 1 is "
        "still found. Add an intact copy with `--replace`."
    )
    assert await states(office, number) == ["live", "failed"]
    assert await office.rows("hidden_versions") == []


async def test_it_is_tried_again_and_then_replaced_by_a_good_one(office: Office) -> None:
    number = await replace_and_fail(office)
    await retry_document(office.app, number)
    assert "This is about version 2; version 1 is found until it is ready." in await why(office, number)
    await office.bury(await office.claim_one(), *DAMAGED)
    again = await office.add(content=b"two", replace=True)
    assert (again.version, again.unchanged, again.status) == (2, True, "queued")
    await office.bury(await office.claim_one(), *DAMAGED)
    assert (await office.add(content=b"three", replace=True)).version == 3
    assert await office.publish(await office.claim_one())
    shown = await office.show(number)
    assert (shown.status, shown.live_version, shown.error) == ("ready", 3, None)
    assert await states(office, number) == ["dead", "dead", "live"]


async def test_back_to_what_is_live_is_a_version_of_its_own(office: Office) -> None:
    """The newest is what counts: who sends the old content again wants it to be the newest."""
    number = await replace_and_fail(office)
    back = await office.add(content=b"one", replace=True)
    assert (back.version, back.unchanged) == (3, False)
    assert len(await office.rows("blobs")) == 2
    await office.publish(await office.claim_one())
    assert await states(office, number) == ["dead", "dead", "live"]


async def test_metadata_change_with_what_is_found(office: Office) -> None:
    """What was said of a version that failed is said of nothing that anybody finds."""
    number = await replace_and_fail(office, metadata={"year": 2025}, uploaded_by="ada")
    shown = await office.show(number)
    assert (shown.live_version, shown.metadata, shown.uploaded_by) == (1, {}, "")
    assert await allowed(office, {"year": 2025}) == []
    await office.add(content=b"three", replace=True, metadata={"year": 2026}, uploaded_by="eve")
    await office.publish(await office.claim_one())
    shown = await office.show(number)
    assert (shown.live_version, shown.metadata, shown.uploaded_by) == (3, {"year": 2026}, "eve")
    assert await allowed(office, {"year": 2026}) == [shown.live_id]


async def allowed(office: Office, metadata: dict[str, Any]) -> list[int]:
    """Versions that search may find with this filter."""
    query = Query("water", [CollectionRef(1, "static", "english")], metadata=metadata)
    async with office.app.database.pool.session() as session:
        moment = await look_around(session, query)
        return list(moment.allowed or [])


async def test_the_same_content_with_other_metadata_changes_nothing_and_says_so(office: Office) -> None:
    made = await office.ready(metadata={"year": 2024})
    again = await office.add(replace=True, metadata={"year": 2025})
    assert again.message == "unchanged: the same content is there already; its metadata stay as they were"
    assert (await office.show(made.id)).metadata == {"year": 2024}
    again = await office.add(replace=True, metadata={"year": 2024})
    assert again.message == "unchanged: the same content is there already"


# -- cancelling, and replacing again --------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
async def test_cancelling_a_replacement_leaves_the_old_one_live(office: Office, running: bool) -> None:
    made = await office.ready(content=b"one")
    await office.add(content=b"two", replace=True)
    job = await office.claim_one() if running else None
    await cancel_document(office.app, made.id)
    if job is not None:
        await office.shop.settle(await office.worker(), (job, Cancelled()))
    shown = await office.show(made.id)
    assert (shown.status, shown.version, shown.live_version) == ("failed", 2, 1)
    sentence = await why(office, made.id)
    assert ": version 2 failed (Cancelled): cancelled" in sentence
    assert "; version 1 is still found. To prepare it after all: `penstock documents retry" in sentence
    await retry_document(office.app, made.id)
    assert await states(office, made.id) == ["live", "preparing"]
    assert await office.publish(await office.claim_one())
    assert await states(office, made.id) == ["dead", "live"]
    with pytest.raises(WrongState, match="nothing to cancel"):
        await cancel_document(office.app, made.id)


async def test_the_first_version_is_replaced_while_it_is_processed(office: Office) -> None:
    made = await office.add(content=b"one")
    stale = await office.claim_one()
    await office.add(content=b"two", replace=True)
    assert await states(office, made.id) == ["dead", "preparing"]
    fresh = await office.claim_one()
    assert await office.publish(fresh)
    assert not await office.publish(stale), "it comes too late, and after a newer one"
    assert await states(office, made.id) == ["dead", "live"]


async def test_replaced_twice_quickly(office: Office) -> None:
    made = await office.ready(content=b"one")
    await office.add(content=b"two", replace=True)
    second = await office.claim_one()
    await office.add(content=b"three", replace=True)
    third = await office.claim_one()
    assert not await office.publish(second)
    assert await states(office, made.id) == ["live", "dead", "preparing"]
    assert await office.publish(third)
    assert await states(office, made.id) == ["dead", "dead", "live"]


async def test_replacing_publishing_and_cancelling_at_once(office: Office) -> None:
    """Whatever comes first: one version is live at the end, or the old one is, and the newest says why it is not."""
    for turn in range(6):
        made = await office.ready(f"{turn}", b"one")
        await office.add(f"{turn}", b"two", replace=True)
        second = await office.claim_one()
        await asyncio.gather(
            office.publish(second),
            office.add(f"{turn}", b"three", replace=True),
            cancel_document(office.app, made.id),
            return_exceptions=True,
        )
        shown = await office.show(made.id)
        assert shown.version == 3
        assert shown.live_version in {1, 2}
        assert (await states(office, made.id)).count("live") == 1
        if shown.status == "failed":
            await retry_document(office.app, made.id)
        [third] = [job for job in await office.claim() if job.id == (await office.show(made.id)).job]
        assert await office.publish(third)
        assert await states(office, made.id) == ["dead", "dead", "live"]


async def test_ten_clients_replace_one_document_with_the_same_content(office: Office) -> None:
    """One of them makes the version, for the others it is there already."""
    made = await office.ready(content=b"one")
    everybody = asyncio.Barrier(10)

    async def content() -> AsyncIterator[bytes]:
        await everybody.wait()
        yield b"two"

    accepted = await asyncio.gather(
        *(office.intake.accept(Upload("files", "a.txt", content(), replace=True)) for _ in range(10))
    )
    assert {(each.id, each.version) for each in accepted} == {(made.id, 2)}
    assert sorted(each.unchanged for each in accepted) == [False] + [True] * 9
    assert len({each.job for each in accepted}) == 1
    assert len(await office.files()) == 2


# -- bytes ----------------------------------------------------------------------------------------------------------


async def test_bytes_are_those_of_the_newest_version_or_of_the_asked_one(office: Office) -> None:
    number = await replace_and_fail(office)
    assert await content_of(office, number) == b"two"
    assert (await blob_of(office.app, number)).media_type is None, "what was found is about version 1"
    assert await content_of(office, number, 1) == b"one"
    assert (await blob_of(office.app, number, 1)).media_type == "text/plain"
    for missing in (0, 3, -1, 2**40):
        with pytest.raises(NotFound, match=rf"has no version {missing} to download: it has versions 1 to 2\."):
            await blob_of(office.app, number, missing)
    await delete_document(office.app, number)
    with pytest.raises(NotFound, match="is deleted"):
        await blob_of(office.app, number)
