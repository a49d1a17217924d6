"""Deleting: invisible at once, with an order to remove it; by a filter; twice."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.documents import Matching, delete_document, delete_matching, list_documents, remove_deleted
from penstock.documents.deletion import like_pattern
from penstock.errors import BadValue, NotFound
from tests.documents.conftest import Office
from tests.documents.filling import fill

ORDERS = "select jobs.id from penstock.jobs join penstock.lanes on lanes.id = lane where kind = 'remove_documents'"


async def names(office: Office) -> list[str]:
    return [each.name for each in await list_documents(office.app)]


async def test_a_deletion_orders_the_removal_once(office: Office) -> None:
    one, two = await office.ready("a.txt"), await office.ready("b.txt", b"other")
    await delete_document(office.app, one.id, by="Ada")
    await delete_document(office.app, two.id)
    assert len(await office.run(ORDERS)) == 1
    first, second = await office.rows("removals")
    assert (first["document_id"], first["deleted_by"], first["state"]) == (one.id, "Ada", "ready")
    assert (second["document_id"], second["due_at"] - second["deleted_at"]) == (two.id, timedelta(0))


async def test_deleting_twice_changes_nothing(office: Office) -> None:
    made = await fill(office)
    first = await delete_document(office.app, made.id)
    assert await delete_document(office.app, made.id) == first
    await remove_deleted(office.app.database, office.store)
    again = await delete_document(office.app, made.id)
    assert (again.status, again.deleted_at) == ("deleted", first.deleted_at)
    assert await office.rows("removals") == []
    assert len(await office.rows("receipts")) == 1
    assert (await office.events(made.id)).count("deleted") == 1


async def test_a_name_is_free_at_once(office: Office) -> None:
    made = await fill(office)
    await delete_document(office.app, made.id)
    again = await fill(office)
    await remove_deleted(office.app.database, office.store)
    assert (again.id != made.id, await office.status(again.id)) == (True, "ready")
    assert len(await office.files()) == 1, "the same content, still in use"


async def test_a_filter_means_what_it_says(office: Office) -> None:
    for number in range(4):
        await office.add(f"2019/{number}.txt", b"%d" % number, metadata={"client": "Acme", "n": number})
    await office.add("2020/a_b.txt", b"x")
    assert len(await office.claim()) == 5
    deleted = await delete_matching(office.app, Matching("files", metadata={"n": 2}))
    assert (deleted.count, deleted.more) == (1, False)
    deleted = await delete_matching(office.app, Matching("files", name_glob="2019/*"), most=2)
    assert (deleted.count, deleted.more) == (2, True)
    deleted = await delete_matching(office.app, Matching("files", name_glob="2019/?.txt", metadata={"client": "Acme"}))
    assert (deleted.count, deleted.more) == (1, False)
    assert await names(office) == ["2020/a_b.txt"]
    future = datetime.now(UTC) + timedelta(days=1)
    assert (await delete_matching(office.app, Matching("files", since=future))).count == 0
    assert (await delete_matching(office.app, Matching("files", media_types=["image/png"]))).count == 0
    assert (await delete_matching(office.app, Matching("files", status="ready"))).count == 0
    assert (await delete_matching(office.app, Matching("files", status="processing", until=future))).count == 1


async def test_a_filter_without_a_condition_is_refused_unless_all_are_meant(office: Office) -> None:
    await office.add()
    with pytest.raises(BadValue, match="name a condition"):
        await delete_matching(office.app, Matching("files"))
    with pytest.raises(BadValue, match="'gone' cannot be deleted"):
        await delete_matching(office.app, Matching("files", status="gone"))
    with pytest.raises(BadValue, match="time zone"):
        await delete_matching(office.app, Matching("files", since=datetime(2026, 1, 1)))  # noqa: DTZ001  that is the point
    with pytest.raises(NotFound):
        await delete_matching(office.app, Matching("other", every=True))
    assert await names(office) == ["a.txt"]
    assert (await delete_matching(office.app, Matching("files", every=True))).count == 1


async def test_another_tenant_is_not_touched(office: Office) -> None:
    await office.add()
    with pytest.raises(NotFound):
        await delete_matching(office.app, Matching("files", every=True), tenant="other")
    assert await names(office) == ["a.txt"]


@pytest.mark.parametrize(
    ("glob", "pattern"),
    [("*.pdf", "%.pdf"), ("a_b?", "a\\_b_"), ("100%", "100\\%"), ("a\\b", "a\\\\b"), ("a\0b", "a\ufffdb")],
)
def test_a_pattern_has_two_signs(glob: str, pattern: str) -> None:
    assert like_pattern(glob) == pattern
