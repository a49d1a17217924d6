"""No check walks through a large table for a page of it: neither with statistics nor without."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.documents import create_collection
from penstock.documents.checks import blobs, deleted, finding, leftovers, live, orphans, tallies, versions
from penstock.documents.checks.leftovers import about
from penstock.documents.reconcile import sql as reconcile_sql
from penstock.search.entries import BUCKETS
from tests.documents.conftest import Office

LARGE = {
    *("documents", "versions", "blobs", "chunks", "pages", "hidden_versions", "indexed_batches", "postings"),
    *("vectors_static", "folded_vectors_static", "jobs", "removals", "receipts", "findings"),
}
FILL = """
insert into penstock.blobs (key, digest, size) select n::text, sha256(n::text::bytea), 1 from generate_series(1, 4000) as n;
insert into penstock.documents (id, collection_id, name, state, version_id, live_id, deleted_at)
  select n, 1, n::text, case when n % 2 = 0 then 'ready' else 'deleted' end, n, case when n % 2 = 0 then n end,
    case when n % 2 = 1 then penstock.now() - n * interval '1 minute' end from generate_series(1, 4000) as n;
insert into penstock.versions (id, document_id, number, blob_id, chunks, pages)
  select n, n, 1, n, 2, 1 from generate_series(1, 4000) as n;
insert into penstock.removals (document_id, collection_id, state, deleted_at, due_at)
  select n, 1, 'ready', penstock.now(), penstock.now() from generate_series(1, 4000, 2) as n;
insert into penstock.receipts
  (document_id, collection, name, contents, deleted_at, removed, collection_id, version_ids, job_ids, keys)
  select n, 'c', 'n', '[]', penstock.now(), '{}', 1, '{}', '{}', '{}' from generate_series(10001, 14000) as n;
insert into penstock.hidden_versions select n, 1 from generate_series(10001, 14000) as n;
insert into penstock.jobs (id, lane, args) select n, 1, '{}' from generate_series(20001, 24000) as n;
insert into penstock.documents (id, collection_id, name, state, job_id)
  select n + 10000, 1, n::text, 'queued', n from generate_series(20001, 22000) as n;
insert into penstock.documents (id, collection_id, name, state, deleted_at, parent_id)
  select n, 1, n::text, 'deleted', penstock.now() - interval '1 hour', n - 40000 from generate_series(40001, 44000) as n;
insert into penstock.chunks select n, k, 1, 0, 1, '', 'x' from generate_series(1, 4000) as n, generate_series(0, 1) as k;
insert into penstock.pages select n, 1, 'x' from generate_series(1, 4000) as n;
insert into penstock.indexed_batches select n, 0, 1, 2, 'x' from generate_series(1, 4000) as n;
insert into penstock.postings select 1, 0, n, b, '{x}', '{x}' from generate_series(1, 4000) as n, generate_series(0, 1) as b;
insert into penstock.vectors_static select n, k, 1, (select array_agg(1)::vector from generate_series(1, 256))
  from generate_series(1, 1000) as n, generate_series(0, 1) as k;
insert into penstock.folded_vectors_static select * from penstock.vectors_static;
insert into penstock.findings (check_name, subject, sentence, advice)
  select 'x', n, 's', 'a' from generate_series(1, 4000) as n;
"""
FEW = [3000, 3001, 3002]
PAGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "blobs": (blobs.sql.page, {"after": 2000, "most": 50}),
    "blobs kept": (blobs.sql.kept, {"blobs": FEW}),
    "blobs users": (blobs.sql.users, {"blobs": FEW, "most": 100}),
    "deleted": (deleted.sql.page, {"at": "2026-01-01", "document": 1, "most": 50}),
    "deleted look": (deleted.sql.look, {"documents": FEW, "hours": 2}),
    "orphans": (orphans.sql.page, {"after": 2000, "most": 50}),
    "orphans look": (orphans.sql.look, {"parents": FEW, "most": 50}),
    "versions": (versions.sql.page, {"after": 2000, "most": 50}),
    "versions look": (versions.sql.look, {"versions": FEW}),
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
    "waiting": (reconcile_sql.waiting, {"after": 31000, "bite": 50}),
    "fresh orphans": (reconcile_sql.orphans, {"bite": 50}),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.fixture
async def filled(office: Office) -> Office:
    async with office.app.database.pool.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        await tx.execute(FILL)
    return office


async def test_no_page_walks_through_a_table(filled: Office) -> None:
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


async def test_every_statement_is_valid(filled: Office) -> None:
    """Those that no other test runs with all their parts would fail only in production."""
    async with filled.app.database.pool.transaction() as tx:
        for file in (blobs, deleted, finding, orphans, tallies, versions):
            for statement in file.sql:
                await tx.prepare(statement.text)
