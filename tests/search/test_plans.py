"""No question may scan the tables of all collections, whatever the statistics say."""

import json
from typing import Any

import pytest

from penstock.database import Statement
from penstock.search.bm25.postings import sql as postings
from penstock.search.bm25.score import sql as lookup
from penstock.search.hits import sql as show
from penstock.search.index import sql as index
from penstock.search.snapshot import sql as moment
from tests.search.conftest import SearchedTexts
from tests.slow import slow_but_first

LARGE = ("postings", "folded_postings", "chunks", "documents", "indexed_batches")
TERMS = [f"term{number}" for number in range(8)]
ASKED = {"terms": TERMS, "buckets": list(range(8)), "collections": [3], "most": 10**6, "common": 10**4}
COMPACTED = {"collection": 3, "bucket": 5, "versions": [7, 8], "most": 100, "long": 32_768}
HOT: dict[str, tuple[Statement, dict[str, Any]]] = {
    "read_postings": (lookup.read_postings, ASKED),
    "show_chunks": (show.show_chunks, {"versions": list(range(1, 11)), "ordinals": [1] * 10}),
    "neighbours": (show.neighbours, {"versions": list(range(1, 11)), "ordinals": [1] * 10, "reach": 2}),
    "is_live": (index.is_live, {"version": 7}),
    "remove_chunks": (index.remove_chunks, {"version": 7, "most": 100}),
    "next_batch": (postings.next_batch, {"version": 7}),
    "remove_from_delta": (postings.remove_from_delta, {"buckets": 32, "collection": 3, "version": 7, "first": 0}),
    "compacted_with": (postings.compacted_with, {"terms": TERMS, "collection": 3, "version": 7}),
    "compact_bucket": (postings.compact_bucket, COMPACTED),
}
FILL = """
insert into penstock.postings (collection_id, first, version_id, bucket, terms, entries)
  select n % 5, 0, n / 160, n / 5 % 32, array['term' || n % 500], array['\\x00'::bytea] from generate_series(1, $1::int) as n;
insert into penstock.folded_postings (collection_id, part, term, entries, lowest, highest)
  select n % 5, n / 500, 'term' || n % 500, '\\x00', 1, 9 from generate_series(1, $1::int) as n on conflict do nothing;
insert into penstock.chunks (version_id, ordinal, start, stop, heading, text)
  select n / 10, n % 10, 0, 1, '', 'text' from generate_series(1, $1::int) as n;
insert into penstock.indexed_batches (version_id, first, collection_id, chunks, terms)
  select n, 0, n % 5, 10, '{a}' from generate_series(1, $1::int) as n;
insert into penstock.documents (id, collection_id, name, live_id, version_id)
  select n, (select max(id) from penstock.collections), 'd' || n, n, n from generate_series(1, $1::int) as n;
"""


async def fill(searched_texts: SearchedTexts, statistics: str) -> None:
    await searched_texts.collection()
    for table in LARGE:
        await searched_texts.run(f"alter table penstock.{table} set (autovacuum_enabled = off)")
    if statistics == "empty":
        await searched_texts.run("analyze")
    for statement in FILL.split(";\n"):
        if statement.strip():
            await searched_texts.run(statement, 20_000)
    if statistics == "fresh":
        await searched_texts.run("analyze")


def nodes(node: dict[str, Any]) -> Any:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)


@pytest.mark.parametrize("statistics", slow_but_first(["none", "empty", "fresh"]))
async def test_no_hot_statement_scans_a_table(searched_texts: SearchedTexts, statistics: str) -> None:
    await fill(searched_texts, statistics)
    for name, (statement, values) in HOT.items():
        for options in ("format json", "format json, generic_plan"):
            [row] = await searched_texts.run(f"explain ({options}) {statement.text}", *statement.arguments(values))
            scans = [
                (node["Relation Name"], node["Node Type"])
                for node in nodes(json.loads(row[0])[0]["Plan"])
                if node.get("Relation Name") in LARGE and "Scan" in node["Node Type"]
            ]
            assert scans, name
            assert not [scan for scan in scans if scan[1] == "Seq Scan"], f"{name}, {statistics}, {options}: {scans}"


async def test_every_statement_is_valid(searched_texts: SearchedTexts) -> None:
    """Those that no other test runs with all their parts would fail only in production."""
    async with searched_texts.database.pool.transaction() as tx:
        for statement in [*lookup, *moment, *show, *index, *postings]:
            await tx.prepare(statement.text)
