"""Deleting: invisible at once, with an order to remove it; by a filter; twice."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.documents import Matching, delete_document, delete_matching, list_documents, remove_deleted
from penstock.documents.deletion.delete import like_pattern
from penstock.errors import BadValue, NotFound
from tests.documents.conftest import DocumentQueue
from tests.documents.index_rows import fill

ORDERS = "select jobs.id from penstock.jobs join penstock.lanes on lanes.id = lane where kind = 'remove_documents'"


async def names(document_queue: DocumentQueue) -> list[str]:
    return [each.name for each in await list_documents(document_queue.app)]


async def test_a_deletion_orders_the_removal_once(document_queue: DocumentQueue) -> None:
    one, two = await document_queue.ready("a.txt"), await document_queue.ready("b.txt", b"other")
    await delete_document(document_queue.app, one.id, by="Ada", now=True)
    await delete_document(document_queue.app, two.id, now=True)
    assert len(await document_queue.run(ORDERS)) == 1
    first, second = await document_queue.rows("removals")
    assert (first["document_id"], first["deleted_by"], first["state"]) == (one.id, "Ada", "ready")
    assert (second["document_id"], second["due_at"] - second["deleted_at"]) == (two.id, timedelta(0))


async def test_deleting_twice_changes_nothing(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    first = await delete_document(document_queue.app, made.id, now=True)
    assert await delete_document(document_queue.app, made.id) == first
    await remove_deleted(document_queue.app.database, document_queue.store)
    again = await delete_document(document_queue.app, made.id)
    assert (again.status, again.deleted_at) == ("deleted", first.deleted_at)
    assert await document_queue.rows("removals") == []
    assert len(await document_queue.rows("receipts")) == 1
    assert (await document_queue.events(made.id)).count("deleted") == 1


async def test_a_name_is_free_at_once(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    await delete_document(document_queue.app, made.id)
    again = await fill(document_queue)
    await remove_deleted(document_queue.app.database, document_queue.store)
    assert (again.id != made.id, await document_queue.status(again.id)) == (True, "ready")
    assert len(await document_queue.files()) == 1, "the same content, still in use"


async def test_a_filter_means_what_it_says(document_queue: DocumentQueue) -> None:
    for number in range(4):
        await document_queue.add(f"2019/{number}.txt", b"%d" % number, metadata={"client": "Acme", "n": number})
    await document_queue.add("2020/a_b.txt", b"x")
    assert len(await document_queue.claim()) == 5
    deleted = await delete_matching(document_queue.app, Matching("files", metadata={"n": 2}))
    assert (deleted.deleted, deleted.more) == (1, False)
    deleted = await delete_matching(document_queue.app, Matching("files", name_glob="2019/*"), most=2)
    assert (deleted.deleted, deleted.more) == (2, True)
    deleted = await delete_matching(
        document_queue.app, Matching("files", name_glob="2019/?.txt", metadata={"client": "Acme"})
    )
    assert (deleted.deleted, deleted.more) == (1, False)
    assert await names(document_queue) == ["2020/a_b.txt"]
    future = datetime.now(UTC) + timedelta(days=1)
    assert (await delete_matching(document_queue.app, Matching("files", since=future))).deleted == 0
    assert (await delete_matching(document_queue.app, Matching("files", media_types=["image/png"]))).deleted == 0
    assert (await delete_matching(document_queue.app, Matching("files", status="ready"))).deleted == 0
    assert (
        await delete_matching(document_queue.app, Matching("files", status="processing", until=future))
    ).deleted == 1


async def test_a_filter_without_a_condition_is_refused_unless_all_are_meant(document_queue: DocumentQueue) -> None:
    await document_queue.add()
    with pytest.raises(BadValue, match="name a condition"):
        await delete_matching(document_queue.app, Matching("files"))
    with pytest.raises(BadValue, match="'gone' cannot be deleted"):
        await delete_matching(document_queue.app, Matching("files", status="gone"))
    with pytest.raises(BadValue, match="time zone"):
        await delete_matching(document_queue.app, Matching("files", since=datetime(2026, 1, 1)))  # noqa: DTZ001  that is the point
    with pytest.raises(NotFound):
        await delete_matching(document_queue.app, Matching("other", every=True))
    assert await names(document_queue) == ["a.txt"]
    assert (await delete_matching(document_queue.app, Matching("files", every=True))).deleted == 1


async def test_another_tenant_is_not_touched(document_queue: DocumentQueue) -> None:
    await document_queue.add()
    with pytest.raises(NotFound):
        await delete_matching(document_queue.app, Matching("files", every=True), tenant="other")
    assert await names(document_queue) == ["a.txt"]


@pytest.mark.parametrize(
    ("glob", "pattern"),
    [("*.pdf", "%.pdf"), ("a_b?", "a\\_b_"), ("100%", "100\\%"), ("a\\b", "a\\\\b"), ("a\0b", "a\ufffdb")],
)
def test_a_pattern_has_two_signs(glob: str, pattern: str) -> None:
    assert like_pattern(glob) == pattern
