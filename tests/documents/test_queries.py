"""Looking at documents: lists, counts, text, the same status everywhere."""

import json
from typing import Any

import pytest

from penstock.documents import (
    STATES,
    cancel_document,
    compact_tallies,
    count_documents,
    create_collection,
    delete_document,
    find_collection,
    find_document,
    keep_pages,
    list_chunks,
    list_documents,
    list_events,
    list_pages,
    queries,
    read_text,
)
from penstock.errors import BadRequest, BadValue, NotFound
from penstock.extraction.result import Page
from tests.documents.conftest import DocumentQueue


async def fill(document_queue: DocumentQueue) -> dict[str, int]:
    """One document in each state, and one that failed as a second version while its first is live."""
    ready = await document_queue.ready("ready.txt", b"1")
    both = await document_queue.ready("both.txt", b"2")
    await document_queue.add("both.txt", b"3", replace=True)
    await document_queue.bury(await document_queue.claim_one())
    failed = await document_queue.add("failed.txt", b"4")
    await cancel_document(document_queue.app, failed.id)
    processing = await document_queue.add("processing.txt", b"5")
    await document_queue.claim_one()
    queued = await document_queue.add("queued.txt", b"6")
    deleted = await document_queue.add("deleted.txt", b"7")
    await delete_document(document_queue.app, deleted.id)
    return {
        "ready": ready.id,
        "both": both.id,
        "failed": failed.id,
        "processing": processing.id,
        "queued": queued.id,
        "deleted": deleted.id,
    }


async def test_counts_lists_and_documents_agree(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    expected = {"queued": 1, "processing": 1, "ready": 1, "failed": 2, "deleted": 1}
    assert await count_documents(document_queue.app) == await count_documents(document_queue.app, "files") == expected
    for state in STATES:
        listed = await list_documents(document_queue.app, status=state)
        assert len(listed) == expected[state]
        assert {each.status for each in listed} == {state}
        for each in listed:
            assert await document_queue.status(each.id) == state
    assert {each.id for each in await list_documents(document_queue.app)} == set(made.values()) - {made["deleted"]}
    while await compact_tallies(document_queue.app.database):
        pass
    assert await count_documents(document_queue.app) == expected
    empty = await create_collection(document_queue.app, "empty")
    assert await count_documents(document_queue.app, "empty") == dict.fromkeys(STATES, 0)
    assert await count_documents(document_queue.app, among=[]) == dict.fromkeys(STATES, 0)
    files = await find_collection(document_queue.app, "files")
    assert await count_documents(document_queue.app, among=[files.id, empty.id]) == expected


async def test_what_is_not_ready_is_counted_to_a_bound(document_queue: DocumentQueue) -> None:
    await fill(document_queue)
    await create_collection(document_queue.app, "others")
    for number in range(3):
        await document_queue.add(f"more {number}", collection="others")
    few = await count_documents(document_queue.app, most=2)
    assert few["queued"] + few["processing"] == 2
    assert few["failed"] == 2
    assert few["deleted"] == 1
    all_of_them = await count_documents(document_queue.app, most=5)
    assert all_of_them == await count_documents(document_queue.app)
    assert all_of_them["queued"] + all_of_them["processing"] == 5


async def test_lists_go_by_keyset(document_queue: DocumentQueue) -> None:
    made = [(await document_queue.add(f"{number}")).id for number in range(7)]
    await create_collection(document_queue.app, "others")
    await document_queue.add("x", collection="others")
    seen: list[int] = []
    while page := await list_documents(document_queue.app, collection="files", after=seen[-1] if seen else 0, most=3):
        seen += [each.id for each in page]
    assert seen == made
    assert await list_documents(document_queue.app, parent=made[0]) == []
    with pytest.raises(BadValue, match="'lost' is not a status"):
        await list_documents(document_queue.app, status="lost")
    with pytest.raises(NotFound, match="Collection nowhere"):
        await list_documents(document_queue.app, collection="nowhere\0")


async def test_filters_may_be_combined(document_queue: DocumentQueue) -> None:
    made = await fill(document_queue)
    await document_queue.run("update penstock.documents set parent_id = $1 where id <> $1", made["both"])
    children = {state: number for state, number in made.items() if state != "both"}
    for collection in (None, "files"):
        for state in STATES:
            found = await list_documents(document_queue.app, collection=collection, status=state)
            expected = {number for name, number in made.items() if name == state or (name, state) == ("both", "failed")}
            assert {each.id for each in found} == expected
            inside = await list_documents(document_queue.app, collection=collection, status=state, parent=made["both"])
            assert [each.id for each in inside] == [children[state]]
    await create_collection(document_queue.app, "others")
    for status in (None, *STATES):
        assert await list_documents(document_queue.app, collection="others", status=status) == []
        assert await list_documents(document_queue.app, status=status, tenant="acme") == []


async def test_a_page_of_a_list_costs_a_page(document_queue: DocumentQueue) -> None:
    """Also for a small collection beside a large one, and with plans that know nothing of the values."""
    await document_queue.add("one")
    await create_collection(document_queue.app, "large")
    await document_queue.run(
        "insert into penstock.documents (collection_id, name, version_id, state, live_id) "
        "select 2, n::text, 1, 'ready', 1 from generate_series(1, 20000) as n"
    )
    await document_queue.run("analyze penstock.documents")
    asked: dict[str, dict[str, Any]] = {
        "list_documents": {},
        "list_in_collection": {"collection": 1, "status": None},
        "list_members": {"parent": 1, "collection": None, "status": None},
        "list_in_state": {"collection": None, "state": "queued", "status": "queued"},
    }
    async with document_queue.app.transaction() as tx:
        await tx.execute("set local plan_cache_mode = force_generic_plan")
        for name, values in asked.items():
            statement = getattr(queries.sql, name)
            arguments = statement.arguments({"tenant": "default", "after": 0, "most": 10, **values})
            [(plan,)] = await tx.fetch(f"explain (analyze, timing off, format json) {statement.text}", *arguments)
            assert rows_touched(json.loads(plan)[0]["Plan"]) < 200, (name, plan)


def rows_touched(plan: dict[str, Any]) -> float:
    own: float = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return own + sum(rows_touched(each) for each in plan.get("Plans", []))


async def test_a_document_is_found_by_number_name_and_collection(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("reports/a.txt")
    for reference in (str(made.id), "reports/a.txt", "files/reports/a.txt"):
        assert (await find_document(document_queue.app, reference)).id == made.id
    await create_collection(document_queue.app, "others")
    other = await document_queue.add("reports/a.txt", collection="others")
    with pytest.raises(BadRequest, match=r"files/reports/a\.txt, others/reports/a\.txt"):
        await find_document(document_queue.app, "reports/a.txt")
    assert (await find_document(document_queue.app, "others/reports/a.txt")).id == other.id
    for reference in ("nothing", "", "a\0b", "9" * 30, "\udc80", str(2**63)):
        with pytest.raises(NotFound):
            await find_document(document_queue.app, reference)


async def test_progress_and_step_are_shown_while_it_is_processed(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    job = await document_queue.claim_one()
    await document_queue.run(
        """update penstock.jobs set progress = '{"done": 3, "total": 12, "note": "pages", "step": "ocr"}' where id = $1""",
        job.id,
    )
    shown = await document_queue.show(made.id)
    assert (shown.step, shown.progress) == ("ocr", {"done": 3, "total": 12, "note": "pages"})
    await document_queue.publish(job)
    shown = await document_queue.show(made.id)
    assert (shown.step, shown.progress, shown.attempt) == (None, None, None)
    assert shown.answer()["digest"] == made.digest
    assert "key" not in shown.answer()


async def test_text_and_pages(document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await document_queue.ready()
    version = (await document_queue.show(made.id)).live_id or 0
    pages = [Page(1, "ö" * 25), Page(2, ""), Page(3, "end", ocr=0.5)]
    async with document_queue.app.transaction() as tx:
        await keep_pages(tx, version, pages)
        await keep_pages(tx, version, pages)  # of another attempt
    monkeypatch.setattr(queries, "PIECE", 10)
    pieces = [piece async for piece in read_text(document_queue.app, made.id)]
    assert max(map(len, pieces)) == 10
    assert "".join(pieces).split("\n\n") == [page.text for page in pages]
    assert [(page.number, page.text, page.ocr) for page in await list_pages(document_queue.app, made.id, after=1)] == [
        (2, "", None),
        (3, "end", 0.5),
    ]
    assert await list_pages(document_queue.app, made.id, after=2**70) == []
    assert await list_chunks(document_queue.app, made.id) == []


async def test_there_is_no_text_before_it_is_ready(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    with pytest.raises(NotFound, match="is queued: it has no text"):
        [piece async for piece in read_text(document_queue.app, made.id)]
    with pytest.raises(NotFound, match="Document 999 does not exist"):
        await list_pages(document_queue.app, 999)
    with pytest.raises(NotFound):
        await list_events(document_queue.app, 2**80)
