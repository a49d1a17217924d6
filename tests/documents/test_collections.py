"""Collections: their settings, their names, their end."""

import asyncio
from typing import Any

import pytest

from penstock.documents import (
    change_collection,
    create_collection,
    delete_collection,
    ensure_collection,
    find_collection,
    list_collections,
    list_documents,
)
from penstock.errors import BadValue, NameTaken, NotFound, WrongState
from tests.documents.conftest import DocumentQueue


async def test_a_collection_has_the_settings_that_it_was_given(document_queue: DocumentQueue) -> None:
    made = await create_collection(document_queue.app, "wide", chunk_size=2000, search_language="german", model=None)
    assert (made.chunk_size, made.chunk_overlap, made.search_language, made.model) == (2000, 100, "german", "static")
    assert await find_collection(document_queue.app, "wide") == made
    assert made.answer()["name"] == "wide"


@pytest.mark.parametrize(
    "wrong",
    [{"chunk_size": 5}, {"chunk_size": "x"}, {"chunk_overlap": 800}, {"model": "no such/thing"}, {"colour": "blue"}],
    ids=str,
)
async def test_settings_that_cannot_be(document_queue: DocumentQueue, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=str(next(iter(wrong)))):
        await create_collection(document_queue.app, "wrong", **wrong)


async def test_a_name_is_taken_once(document_queue: DocumentQueue) -> None:
    ended = await asyncio.gather(
        *(create_collection(document_queue.app, "one") for _ in range(8)), return_exceptions=True
    )
    [made] = [each for each in ended if not isinstance(each, BaseException)]
    assert {each.existing for each in ended if isinstance(each, NameTaken)} == {made.id}
    assert (await ensure_collection(document_queue.app, "one")).id == made.id
    many = await asyncio.gather(*(ensure_collection(document_queue.app, "another") for _ in range(8)))
    assert len({each.id for each in many}) == 1


async def test_lists_go_by_name(document_queue: DocumentQueue) -> None:
    for name in ("b", "c", "a"):
        await create_collection(document_queue.app, name)
    first = await list_collections(document_queue.app, most=2)
    rest = await list_collections(document_queue.app, after=first[-1].name)
    assert [each.name for each in first + rest] == ["a", "b", "c", "files"]


async def test_a_change_counts_from_then_on(document_queue: DocumentQueue) -> None:
    await create_collection(document_queue.app, "taken")
    made = await change_collection(document_queue.app, "files", new_name="papers", chunk_size=500)
    assert (made.name, made.chunk_size) == ("papers", 500)
    with pytest.raises(NotFound):
        await find_collection(document_queue.app, "files")
    with pytest.raises(NameTaken):
        await change_collection(document_queue.app, "papers", new_name="taken")
    with pytest.raises(BadValue, match="embedding model 'other' does not exist"):
        await change_collection(document_queue.app, "papers", model="other")
    await change_collection(document_queue.app, "papers", search_language="french")
    await document_queue.add(collection="papers")
    with pytest.raises(WrongState, match="cannot be changed while it has documents"):
        await change_collection(document_queue.app, "papers", search_language="german")
    assert (await change_collection(document_queue.app, "papers", chunk_overlap=0)).chunk_overlap == 0


async def test_a_deleted_collection_takes_its_documents_along(document_queue: DocumentQueue) -> None:
    await document_queue.ready("a.txt", b"1")
    await document_queue.add("b.txt", b"2")
    job = await document_queue.claim_one()
    await document_queue.add("c.txt", b"3")
    assert (await delete_collection(document_queue.app, "files")).deleted == 3
    assert await list_documents(document_queue.app) == []
    preparing = (
        "select cancelling from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane where kind = $1"
    )
    assert [row["cancelling"] for row in await document_queue.run(preparing, "prepare_document")] == [True]
    assert not await document_queue.publish(job)
    with pytest.raises(NotFound):
        await delete_collection(document_queue.app, "files")
    again = await create_collection(document_queue.app, "files")  # the name is free again
    assert again.documents == 0
