"""No check walks through a large table for a page of it: neither with statistics nor without."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.documents import create_collection
from penstock.documents.integrity import blobs, deleted, finding, leftovers, live, tallies
from penstock.documents.integrity.leftovers import about
from penstock.documents.integrity.run import sql as reconcile_sql
from penstock.search.bm25.postings import BUCKETS
from tests.documents.conftest import DocumentQueue
from tests.documents.index_rows import FILL

LARGE = {
    *("documents", "versions", "blobs", "chunks", "pages", "hidden_versions", "indexed_batches", "postings"),
    *("vectors_static", "folded_vectors_static", "jobs", "removals", "receipts", "findings"),
}
FEW = [3000, 3001, 3002]
PAGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "blobs": (blobs.sql.page, {"after": 2000, "most": 50}),
    "blobs kept": (blobs.sql.kept, {"blobs": FEW}),
    "blobs users": (blobs.sql.users, {"blobs": FEW, "most": 100}),
    "deleted": (deleted.sql.deleted_page, {"at": "2026-01-01", "document": 1, "most": 50}),
    "deleted look": (deleted.sql.deleted_found, {"documents": FEW, "hours": 2}),
    "orphans": (deleted.sql.orphans_page, {"after": 2000, "most": 50}),
    "orphans look": (deleted.sql.orphans_found, {"parents": FEW, "most": 50}),
    "versions": (deleted.sql.versions_page, {"after": 2000, "most": 50}),
    "versions look": (deleted.sql.versions_found, {"versions": FEW}),
    "live": (live.sql.page, {"after": 2000, "most": 50}),
    "live look": (live.sql.count_rows, {"versions": FEW, "buckets": BUCKETS}),
    "gone": (leftovers.sql.gone_versions, {"versions": FEW}),
    "chunks": (about("next_versions", "chunks"), {"after": 2000, "most": 50}),
    "pages": (about("next_versions", "pages"), {"after": 2000, "most": 50}),
    "batches": (about("next_versions", "indexed_batches"), {"after": 2000, "most": 50}),
    "vectors": (about("next_pairs", "vectors_static"), {"collection": 1, "version": 500, "most": 50}),
    "folded vectors": (about("next_pairs", "folded_vectors_static"), {"collection": 1, "version": 500, "most": 50}),
    "postings": (leftovers.sql.next_postings, {"collection": 1, "bucket": 0, "version": 2000, "first": 0, "most": 50}),
    "open": (finding.sql.list_open, {"name": "live", "most": 50}),
    "waiting": (reconcile_sql.waiting, {"after": 31000, "batch": 50}),
    "fresh orphans": (reconcile_sql.orphans, {"batch": 50}),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.fixture
async def filled(document_queue: DocumentQueue) -> DocumentQueue:
    async with document_queue.app.database.pool.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        await tx.execute(FILL)
    return document_queue


async def test_no_page_walks_through_a_table(filled: DocumentQueue) -> None:
    await create_collection(filled.app, "other")
    for statistics in ("none", "some"):
        if statistics == "some":
            await filled.run("analyze")
        for name, (statement, values) in PAGES.items():
            [row] = await filled.run(
                f"explain (analyze, timing off, format json) {statement.text}", *statement.arguments(values)
            )
            scans = [node for node in nodes(json.loads(row[0])[0]["Plan"]) if node.get("Relation Name") in LARGE]
            assert scans, name
            walked = [
                (node["Relation Name"], node["Node Type"])
                for node in scans
                if node["Node Type"] == "Seq Scan"
                or node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0) > 2000
            ]
            assert not walked, f"{name}, statistics: {statistics}: {walked}"


async def test_every_statement_is_valid(filled: DocumentQueue) -> None:
    """Those that no other test runs with all their parts would fail only in production."""
    async with filled.app.database.pool.transaction() as tx:
        for file in (blobs, deleted, finding, tallies):
            for statement in file.sql:
                await tx.prepare(statement.text)
