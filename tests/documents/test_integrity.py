"""Each check: a test that causes what it looks for, behind the product's back, and one in which the repair removes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import clear_old_versions, delete_document
from penstock.documents.deletion.delete import delete_in
from penstock.documents.deletion.purge import remove_deleted
from penstock.documents.integrity import blobs, leftovers, live, run_check, tallies
from penstock.documents.integrity.blobs import BlobCheck
from penstock.documents.integrity.deleted import DeletedCheck, OrphanCheck, VersionCheck
from penstock.documents.integrity.finding import Cursor, IntegrityFinding, Repair
from penstock.documents.integrity.leftovers import LeftoverPostings, LeftoverRows, LeftoverVectors
from penstock.documents.integrity.live import LiveCheck
from penstock.documents.integrity.tallies import TallyCheck
from penstock.errors import Transient
from penstock.search import compact
from tests.documents.conftest import DocumentQueue
from tests.documents.indexed_documents import TABLES, TEXTS, IndexedDocuments


@pytest.fixture
def indexed_documents(document_queue: DocumentQueue) -> IndexedDocuments:
    return IndexedDocuments(document_queue)


async def test_a_clean_library_has_no_findings(indexed_documents: IndexedDocuments) -> None:
    first, _ = await indexed_documents.add("a.txt")
    await indexed_documents.add("blank.txt", ["", "of the"])  # chunks without any term
    second, _ = await indexed_documents.add("b.txt")
    await indexed_documents.document_queue.add("a.txt", b"another", replace=True)
    assert await indexed_documents.check_all() == {}, "one that is replaced"
    await indexed_documents.prepare(await indexed_documents.document_queue.claim_one())
    assert await indexed_documents.check_all() == {}, "one whose old version is not cleared"
    await clear_old_versions(indexed_documents.database, indexed_documents.index.clear)
    await compact(indexed_documents.database, 1, "static")
    assert await indexed_documents.check_all() == {}, "folded"
    await delete_document(indexed_documents.document_queue.app, second, now=True)
    assert await indexed_documents.check_all() == {}, "deleted, and not removed"
    assert await remove_deleted(indexed_documents.database, indexed_documents.document_queue.store, rest=0) == 1
    assert await indexed_documents.check_all() == {}, "removed"
    failed = await indexed_documents.document_queue.add("c.txt")
    await indexed_documents.document_queue.bury(await indexed_documents.document_queue.claim_one())
    assert (await indexed_documents.document_queue.status(failed.id), await indexed_documents.check_all()) == (
        "failed",
        {},
    )
    assert await indexed_documents.document_queue.status(first) == "ready"
    rows = await indexed_documents.run(
        "select name, round, found, subjects, cursor, ended_at from penstock.checks order by name"
    )
    assert [row["name"] for row in rows] == [
        *(
            "blobs",
            "deleted",
            "left-batches",
            "left-chunks",
            "left-hidden",
            "left-pages",
            "left-postings",
            "left-vectors",
        ),
        *("live", "orphans", "tallies", "versions"),
    ]
    assert all(row["found"] == 0 and row["ended_at"] and row["cursor"] is None and row["round"] > 1 for row in rows)
    assert all(row["subjects"] > 0 for row in rows if row["name"] != "orphans"), "each has looked at something"


# -- live ---------------------------------------------------------------------------------------------------------

DAMAGES = {
    "delete from penstock.chunks where ordinal = 1": "has 3 chunks and 2 rows of them",
    "delete from penstock.vectors_static where ordinal = 1": "has 3 chunks and 2 vectors of the model static",
    "insert into penstock.folded_vectors_static select * from penstock.vectors_static where ordinal = 1": "and 4 vectors",
    "delete from penstock.indexed_batches": "has 3 chunks and 0 of them in the postings",
    "delete from penstock.postings where bucket = (select min(bucket) from penstock.postings)": "lacks postings of 1 of its",
    "delete from penstock.pages": "has 1 pages and 0 rows of them",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_live_version_that_lacks_rows(indexed_documents: IndexedDocuments, damage: str) -> None:
    """It is prepared anew, and the old one stays live until then."""
    document, version = await indexed_documents.add()
    await indexed_documents.run(damage)
    looked = await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    assert (looked.found, looked.repaired) == (1, 1)
    [said] = await indexed_documents.open()
    assert DAMAGES[damage] in said
    assert f"Document {document} (files/a.txt)" in said
    shown = await indexed_documents.document_queue.show(document)
    assert (shown.status, shown.version, shown.live_version) == ("queued", 2, 1)

    looked = await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    assert (looked.found, looked.repaired) == (1, 0), "seen again, and not repaired twice"
    await indexed_documents.prepare(await indexed_documents.document_queue.claim_one())
    assert (await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))).found == 0
    [finding] = await indexed_documents.findings()
    assert (finding["subject"], finding["document_id"], finding["seen"]) == (version, document, 2)
    assert "as version 2, by job" in finding["repair"]
    assert finding["ended_at"] is not None


async def test_what_is_wrong_again_is_left_to_a_person(indexed_documents: IndexedDocuments) -> None:
    document, _ = await indexed_documents.add()
    await indexed_documents.run("delete from penstock.pages")
    await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    await indexed_documents.prepare(await indexed_documents.document_queue.claim_one())
    await indexed_documents.run("delete from penstock.pages")
    looked = await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    assert (looked.found, looked.repaired) == (1, 0)
    assert (await indexed_documents.document_queue.show(document)).version == 2
    await indexed_documents.document_queue.job_queue.advance(86_401)
    assert (await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))).repaired == 1, (
        "after a day it may be something else"
    )


async def test_few_are_prepared_anew_in_one_run(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RENEWED", 1)
    for name in ("a.txt", "b.txt"):
        await indexed_documents.add(name)
    await indexed_documents.run("delete from penstock.pages")
    looked = await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    assert (looked.found, looked.repaired) == (2, 1)
    assert (await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))).repaired == 1
    assert len(await indexed_documents.document_queue.claim()) == 2


async def test_a_version_that_is_on_its_way_is_not_prepared_anew(indexed_documents: IndexedDocuments) -> None:
    document, _ = await indexed_documents.add()
    await indexed_documents.document_queue.add("a.txt", b"another", replace=True)
    await indexed_documents.run("delete from penstock.pages")
    looked = await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    assert (looked.found, looked.repaired) == (1, 0)
    assert (await indexed_documents.document_queue.show(document)).version == 2


async def test_a_live_version_that_is_hidden(indexed_documents: IndexedDocuments) -> None:
    _, version = await indexed_documents.add()
    await indexed_documents.run("insert into penstock.hidden_versions values ($1, 1)", version)
    looked = await indexed_documents.check(LiveCheck(indexed_documents.document_queue.app))
    assert (looked.found, looked.repaired) == (1, 1)
    assert await indexed_documents.document_queue.rows("hidden_versions") == []
    assert await indexed_documents.open() == []


async def test_long_versions_make_short_pages(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHUNKS", 2 * len(TEXTS))
    versions = [(await indexed_documents.add(f"{number}.txt"))[1] for number in range(5)]
    check = LiveCheck(indexed_documents.document_queue.app)
    assert await check.page(None) == (versions[:2], [versions[1]])
    assert await check.page([versions[1]]) == (versions[2:4], [versions[3]])
    assert await check.page([versions[3]]) == (versions[4:], None)
    monkeypatch.setattr(live, "CHUNKS", 1)
    assert await check.page(None) == (versions[:1], [versions[0]])


# -- versions, deleted --------------------------------------------------------------------------------------------


async def test_a_version_that_nobody_has_given_up(indexed_documents: IndexedDocuments) -> None:
    _, version = await indexed_documents.add()
    await indexed_documents.document_queue.add("a.txt", b"another", replace=True)
    await indexed_documents.prepare(await indexed_documents.document_queue.claim_one())
    await indexed_documents.run("update penstock.versions set dead_at = null where id = $1", version)
    assert await clear_old_versions(indexed_documents.database, indexed_documents.index.clear) == 0, (
        "its rows would stay for ever"
    )
    looked = await indexed_documents.check(VersionCheck(indexed_documents.database))
    assert (looked.found, looked.repaired) == (1, 1)
    assert await clear_old_versions(indexed_documents.database, indexed_documents.index.clear) == 1
    assert await indexed_documents.rows_of(version) == 0
    assert (await indexed_documents.check(VersionCheck(indexed_documents.database))).found == 0


async def test_a_deleted_document_without_a_removal(indexed_documents: IndexedDocuments) -> None:
    document, version = await indexed_documents.add()
    await delete_document(indexed_documents.document_queue.app, document, now=True)
    await indexed_documents.run("delete from penstock.removals")
    looked = await indexed_documents.check(DeletedCheck(indexed_documents.database))
    assert (looked.found, looked.repaired) == (1, 1)
    assert await remove_deleted(indexed_documents.database, indexed_documents.document_queue.store, rest=0) == 1
    assert await indexed_documents.rows_of(version) == 0
    assert (await indexed_documents.check(DeletedCheck(indexed_documents.database))).found == 0


async def test_a_removal_that_is_late(indexed_documents: IndexedDocuments) -> None:
    document, _ = await indexed_documents.add()
    await delete_document(indexed_documents.document_queue.app, document, now=True)
    await indexed_documents.document_queue.job_queue.advance(2 * 3600 + 1)
    looked = await indexed_documents.check(DeletedCheck(indexed_documents.database))
    assert (looked.found, looked.repaired) == (1, 0)
    assert "its removal is 2 hours late" in (await indexed_documents.open())[0]
    await remove_deleted(indexed_documents.database, indexed_documents.document_queue.store, rest=0)
    await indexed_documents.check(DeletedCheck(indexed_documents.database))
    assert await indexed_documents.open() == []
    await indexed_documents.run("update penstock.receipts set verified_at = null, verified = null")
    await indexed_documents.document_queue.job_queue.advance(2 * 3600 + 1)
    await indexed_documents.check(DeletedCheck(indexed_documents.database))
    assert "the removal could not be verified" in (await indexed_documents.open())[0]


async def test_deleted_documents_come_in_pages(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.documents.integrity import deleted

    monkeypatch.setattr(deleted, "PAGE", 2)
    numbers = [(await indexed_documents.add(f"{number}.txt"))[0] for number in range(5)]
    for number in numbers:
        await delete_document(indexed_documents.document_queue.app, number, now=True)
    looked = await indexed_documents.check(DeletedCheck(indexed_documents.database))
    assert (looked.subjects, looked.found) == (5, 0)


async def test_a_member_that_outlives_its_parent(indexed_documents: IndexedDocuments) -> None:
    parent, _ = await indexed_documents.add("mail.eml")
    member, _ = await indexed_documents.add("mail.eml!/a.txt")
    await indexed_documents.run("update penstock.documents set parent_id = $1, depth = 1 where id = $2", parent, member)
    assert (await indexed_documents.check(OrphanCheck(indexed_documents.database))).found == 0
    async with indexed_documents.database.pool.transaction() as tx:
        await delete_in(tx, [parent], "and then the process dies")
    assert (await indexed_documents.check(OrphanCheck(indexed_documents.database))).found == 0, (
        "the deletion is under way"
    )
    await indexed_documents.document_queue.job_queue.advance(15 * 60 + 1)
    looked = await indexed_documents.check(OrphanCheck(indexed_documents.database))
    assert (looked.subjects, looked.found, looked.repaired) == (1, 1, 1)
    assert await indexed_documents.document_queue.status(member) == "deleted"
    assert (await indexed_documents.check(OrphanCheck(indexed_documents.database))).found == 0


# -- what is left -------------------------------------------------------------------------------------------------


def check_of(indexed_documents: IndexedDocuments, table: str) -> Any:
    if table == "postings":
        return LeftoverPostings(indexed_documents.database)
    return (
        LeftoverVectors(indexed_documents.database)
        if "vectors" in table
        else LeftoverRows(indexed_documents.database, table)
    )


@pytest.mark.parametrize("table", TABLES)
async def test_what_is_left_of_a_version_that_is_gone(indexed_documents: IndexedDocuments, table: str) -> None:
    """All that is left goes, whichever table it was found in."""
    await indexed_documents.add("kept.txt")
    document, version = await indexed_documents.add("gone.txt")
    if table == "folded_vectors_static":
        await indexed_documents.run("insert into penstock.folded_vectors_static select * from penstock.vectors_static")
        await indexed_documents.run("delete from penstock.vectors_static where version_id = $1", version)
        await indexed_documents.run("delete from penstock.folded_vectors_static where version_id <> $1", version)
    before = await indexed_documents.rows_of(version)
    await forget(indexed_documents, document, version, spared=table)
    assert 0 < await indexed_documents.rows_of(version) < before
    check = check_of(indexed_documents, table)
    looked = await indexed_documents.check(check)
    assert (looked.found, looked.repaired) == (1, 1)
    assert await indexed_documents.rows_of(version) == 0
    assert await indexed_documents.check_all() == {}, "nothing else was touched"
    [finding] = await indexed_documents.findings()
    assert (finding["subject"], finding["ended_at"] is not None) == (version, True)


async def forget(indexed_documents: IndexedDocuments, document: int, version: int, *, spared: str) -> None:
    """The document and its version vanish, and their rows but for those of one table."""
    async with indexed_documents.database.pool.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        await tx.execute("delete from penstock.documents where id = $1", document)
        await tx.execute("delete from penstock.versions where id = $1", version)
        for table in TABLES:
            if table != spared:
                await tx.execute(f"delete from penstock.{table} where version_id = $1", version)
        if spared == "hidden_versions":
            await tx.execute("insert into penstock.hidden_versions values ($1, 1)", version)
        await tx.execute(
            "insert into penstock.tallies select 1, -documents, -chunks, -words, -deleted from penstock.tallies limit 1"
        )


async def test_what_is_left_of_folded_postings_goes_with_their_batches(indexed_documents: IndexedDocuments) -> None:
    document, version = await indexed_documents.add("gone.txt")
    await compact(indexed_documents.database, 1, "static")
    assert await indexed_documents.document_queue.rows("folded_postings")
    await delete_document(indexed_documents.document_queue.app, document, now=True)
    await indexed_documents.run("update penstock.versions set cleared_at = penstock.now()")
    looked = await indexed_documents.check(LeftoverRows(indexed_documents.database, "indexed_batches"))
    assert (looked.found, looked.repaired) == (1, 1)
    assert await indexed_documents.document_queue.rows("folded_postings") == []
    assert await indexed_documents.rows_of(version) == 0


async def test_tables_are_walked_in_pages(indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PAGE", 2)
    monkeypatch.setattr(leftovers, "ROWS", 5)
    versions = {(await indexed_documents.add(f"{number}.txt"))[1] for number in range(5)}
    for table in ("chunks", "indexed_batches", "pages"):
        assert (await indexed_documents.check(LeftoverRows(indexed_documents.database, table))).subjects == 5
    for check in (LeftoverPostings(indexed_documents.database), LeftoverVectors(indexed_documents.database)):
        seen: set[int] = set()
        cursor: Cursor | None = None
        for _ in range(100):
            subjects, cursor = await check.page(cursor)
            seen |= set(subjects)
            if cursor is None:
                break
        assert (seen, cursor) == (versions, None)


# -- tallies ------------------------------------------------------------------------------------------------------


async def test_counts_that_are_off(indexed_documents: IndexedDocuments) -> None:
    document, _ = await indexed_documents.add()
    await indexed_documents.add("b.txt")
    await delete_document(indexed_documents.document_queue.app, document, now=True)
    await indexed_documents.run("insert into penstock.tallies values (1, 2, -5, 0, 1)")
    looked = await indexed_documents.check(TallyCheck(indexed_documents.database))
    assert (looked.found, looked.repaired) == (1, 1)
    [finding] = await indexed_documents.findings()
    assert (
        "of the collection files are off: to be right they need -2 documents, +5 chunks, -1 deleted."
        in finding["sentence"]
    )
    assert (await indexed_documents.check(TallyCheck(indexed_documents.database))).found == 0


async def test_large_collections_have_a_page_of_their_own(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.documents import create_collection

    monkeypatch.setattr(tallies, "DOCUMENTS", 1)
    await create_collection(indexed_documents.document_queue.app, "more")
    await indexed_documents.add("a.txt")
    await indexed_documents.add("b.txt")
    await indexed_documents.add("c.txt", collection="more")
    check = TallyCheck(indexed_documents.database)
    assert await check.page(None) == ([1], [1])
    assert await check.page([1]) == ([2], None)


async def test_a_large_collection_is_counted_in_bites(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "LARGE", 1)
    monkeypatch.setattr(tallies, "DOCUMENTS", 2)
    numbers = [(await indexed_documents.add(f"{number}.txt"))[0] for number in range(5)]
    await delete_document(indexed_documents.document_queue.app, numbers[0], now=True)
    check = TallyCheck(indexed_documents.database)
    assert (await indexed_documents.check(check)).found == 0
    await indexed_documents.run("insert into penstock.tallies values (1, 2, -5, 0, 1)")
    looked = await indexed_documents.check(TallyCheck(indexed_documents.database))
    assert (looked.found, looked.repaired) == (1, 1)
    assert "they need -2 documents, +5 chunks, -1 deleted." in (await indexed_documents.findings())[0]["sentence"]
    assert (await indexed_documents.check(TallyCheck(indexed_documents.database))).found == 0
    monkeypatch.setattr(tallies, "LARGE", 1000)
    assert (await indexed_documents.check(TallyCheck(indexed_documents.database))).found == 0, (
        "the other way says the same"
    )


async def test_a_large_collection_that_changes_meanwhile_is_left_to_the_next_round(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "LARGE", 1)
    numbers = [(await indexed_documents.add(f"{number}.txt"))[0] for number in range(3)]
    count_batch = tallies.sql.count_batch

    class Between:
        """The first document goes after it was counted."""

        async def first(self, session: Any, **values: Any) -> Any:
            found = await count_batch.first(session, **values)
            await delete_document(indexed_documents.document_queue.app, numbers[0], now=True)
            return found

    monkeypatch.setitem(tallies.sql._by_name, "count_batch", Between())
    assert (await indexed_documents.check(TallyCheck(indexed_documents.database))).found == 0
    await indexed_documents.run("insert into penstock.tallies values (1, 1, 0, 0, 0)")
    check = TallyCheck(indexed_documents.database)
    [found] = await check.find([1])
    await indexed_documents.run("insert into penstock.tallies values (1, 0, 0, 0, 0)")
    assert await check.repair(found) is None, "the counts are others by now"


# -- blobs --------------------------------------------------------------------------------------------------------


async def path_of(indexed_documents: IndexedDocuments, document: int) -> Path:
    shown = await indexed_documents.document_queue.show(document)
    return indexed_documents.document_queue.app.settings.home / "blobs" / shown.key[:2] / shown.key


@pytest.mark.parametrize(("change", "said"), [(None, "are not in"), (-1, "are fewer in"), (1, "are more in")])
async def test_bytes_that_are_missing(indexed_documents: IndexedDocuments, change: int | None, said: str) -> None:
    """They are reported; when they are back, they are not any more."""
    document, _ = await indexed_documents.add()
    await indexed_documents.add("b.txt")
    path = await path_of(indexed_documents, document)
    content = path.read_bytes()
    if change is None:
        path.unlink()
    else:
        path.write_bytes(content[:-1] if change < 0 else content + b"!")
    check = BlobCheck(indexed_documents.database, indexed_documents.document_queue.store)
    looked = await indexed_documents.check(check)
    assert (looked.found, looked.repaired) == (1, 0)
    [sentence] = await indexed_documents.open()
    assert f"The bytes of document {document} (files/a.txt) {said} the blob store" in sentence
    path.write_bytes(content)
    assert (await indexed_documents.check(check)).found == 0
    assert await indexed_documents.open() == []


async def test_bytes_of_many_documents_are_reported_for_each(indexed_documents: IndexedDocuments) -> None:
    same = b"the same"
    numbers = [(await indexed_documents.document_queue.ready(name, same)).id for name in ("a.txt", "b.txt")]
    waiting = await indexed_documents.document_queue.add("c.txt", same)
    (await path_of(indexed_documents, numbers[0])).unlink()
    assert (
        await indexed_documents.check(BlobCheck(indexed_documents.database, indexed_documents.document_queue.store))
    ).found == 2
    assert [row["document_id"] for row in await indexed_documents.findings()] == numbers, (
        f"{waiting.id} will fail by itself"
    )
    await delete_document(indexed_documents.document_queue.app, numbers[0], now=True)
    assert (
        await indexed_documents.check(BlobCheck(indexed_documents.database, indexed_documents.document_queue.store))
    ).found == 1
    assert len(await indexed_documents.open()) == 1


async def test_empty_bytes_are_bytes(indexed_documents: IndexedDocuments) -> None:
    document = (await indexed_documents.document_queue.ready("empty.txt", b"")).id
    assert (
        await indexed_documents.check(BlobCheck(indexed_documents.database, indexed_documents.document_queue.store))
    ).found == 0
    (await path_of(indexed_documents, document)).write_bytes(b"!")
    assert (
        await indexed_documents.check(BlobCheck(indexed_documents.database, indexed_documents.document_queue.store))
    ).found == 1


async def test_a_blob_that_is_collected_meanwhile_is_no_finding(indexed_documents: IndexedDocuments) -> None:
    document = (await indexed_documents.document_queue.ready()).id
    path = await path_of(indexed_documents, document)

    class Collecting:
        """The file goes after the row has said so, while the check asks."""

        def read(self, key: str, start: int = 0, stop: int | None = None) -> Any:
            return self._read(key, start, stop)

        async def _read(self, key: str, start: int, stop: int | None) -> Any:
            await indexed_documents.run("update penstock.blobs set state = 'deleting'")
            path.unlink()
            async for piece in indexed_documents.document_queue.store.read(key, start, stop):
                yield piece

    store: Any = Collecting()
    assert (await indexed_documents.check(BlobCheck(indexed_documents.database, store))).found == 0


async def test_a_store_that_is_away_does_not_keep_the_others_from_looking(
    indexed_documents: IndexedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    await indexed_documents.add()
    await indexed_documents.run("insert into penstock.tallies values (1, 1, 0, 0, 0)")

    async def ask(*_: Any) -> str:
        raise Transient("The bucket is away.")

    monkeypatch.setattr(blobs.BlobCheck, "_ask", ask)
    with pytest.raises(Transient):
        await indexed_documents.check_all()
    assert [row["check_name"] for row in await indexed_documents.findings()] == ["tallies"]


# -- runs ---------------------------------------------------------------------------------------------------------


class Numbers:
    """A check of numbers up to a bound, some of which are wrong; two a page."""

    name = "numbers"

    def __init__(self, last: int, wrong: Sequence[int] = ()) -> None:
        self.last = last
        self.wrong = set(wrong)
        self.seen: list[int] = []

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        begin = after[0] if after else 0
        subjects = [begin + 1, begin + 2]
        return subjects, [begin + 2] if begin + 2 < self.last else None

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        self.seen += subjects
        return [IntegrityFinding(each, f"{each} is wrong.", "count again") for each in subjects if each in self.wrong]

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        return None


async def test_a_run_goes_on_where_the_last_one_ended(indexed_documents: IndexedDocuments) -> None:
    check = Numbers(8)
    await run_check(indexed_documents.database, check, pages=3)
    assert check.seen == [1, 2, 3, 4, 5, 6]
    await run_check(indexed_documents.database, check, pages=3)
    assert check.seen == [*range(1, 9)]
    [row] = await indexed_documents.run("select * from penstock.checks")
    assert (row["round"], row["cursor"], row["subjects"]) == (1, None, 8)
    await run_check(indexed_documents.database, check, pages=1)
    assert check.seen[8:] == [1, 2], "and starts over"


async def test_a_check_that_takes_long_leaves_the_rest(indexed_documents: IndexedDocuments) -> None:
    check = Numbers(8)
    await run_check(indexed_documents.database, check, seconds=-1)
    assert check.seen == [1, 2]


async def test_open_findings_are_looked_at_first_and_ended_when_gone(indexed_documents: IndexedDocuments) -> None:
    check = Numbers(100, wrong=[1, 2])
    await run_check(indexed_documents.database, check, pages=1)
    check.wrong.remove(2)
    check.seen = []
    looked = await run_check(indexed_documents.database, check, pages=1)
    assert check.seen == [1, 2, 3, 4]
    assert looked.found == 1
    rows = await indexed_documents.findings()
    assert [(row["subject"], row["seen"], row["ended_at"] is None) for row in rows] == [(1, 2, True), (2, 1, False)]
    [row] = await indexed_documents.run("select found, repaired from penstock.checks")
    assert (row["found"], row["repaired"]) == (2, 0)
    check.wrong.add(2)
    await run_check(indexed_documents.database, check, pages=100)
    await run_check(indexed_documents.database, check, pages=1)
    assert len(await indexed_documents.findings()) == 3, "back again is another finding"


async def test_two_runs_at_once_count_a_page_once(indexed_documents: IndexedDocuments) -> None:
    first, second = Numbers(8), Numbers(8)

    class Late(Numbers):
        async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
            if not second.seen:
                await run_check(indexed_documents.database, second, pages=2)
            return await super().find(subjects)

    first = Late(8)
    await run_check(indexed_documents.database, first)
    assert (first.seen, second.seen) == ([1, 2], [1, 2, 3, 4]), "who was overtaken stops"
    [row] = await indexed_documents.run("select cursor, subjects from penstock.checks")
    assert (row["cursor"], row["subjects"]) == ("[4]", 4)


async def test_old_findings_are_forgotten(indexed_documents: IndexedDocuments) -> None:
    check = Numbers(2, wrong=[1, 2])
    await run_check(indexed_documents.database, check)
    check.wrong.remove(1)
    await run_check(indexed_documents.database, check)
    await indexed_documents.document_queue.job_queue.advance(31 * 86_400)
    await indexed_documents.check_all()
    assert [row["subject"] for row in await indexed_documents.findings()] == [2], "the open one stays"
