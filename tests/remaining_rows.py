"""What is left of documents that were removed: every table is asked, also those that nobody had thought of."""

from collections.abc import Sequence
from typing import Any

from penstock.search.bm25.postings import unpack

# Tables of the schema, with the columns by which they know of a version or a document.
COLUMNS = """
select relation.relname as table_name, attribute.attname as column_name
from pg_class as relation join pg_attribute as attribute on attribute.attrelid = relation.oid
where relation.relnamespace = 'penstock'::regnamespace and relation.relkind = 'r' and not attribute.attisdropped
  and attribute.attname in ('version_id', 'live_id', 'document_id') and attribute.atttypid = 'bigint'::regtype
order by 1, 2
"""
# What stays: the tombstone's number of its last version, its story, and the receipt.
STAYS = {("documents", "version_id"), ("events", "document_id"), ("receipts", "document_id")}
EXPECTED = {
    "chunks",
    "pages",
    "hidden_versions",
    "indexed_batches",
    "postings",
    "versions",
    "removals",
    "vectors_static",
}


async def count_remaining_rows(
    connection: Any, documents: Sequence[int], versions: Sequence[int], jobs: Sequence[int] = ()
) -> dict[str, int]:
    """By table and column, those with something left. `connection` is anything with `fetch` and `fetchval`."""
    found: dict[str, int] = {}
    columns = [(row["table_name"], row["column_name"]) for row in await connection.fetch(COLUMNS)]
    assert {table for table, _ in columns} >= EXPECTED, "the question would miss tables"
    for table, column in columns:
        if (table, column) in STAYS:
            continue
        numbers = documents if column == "document_id" else versions
        found[f"{table}.{column}"] = await connection.fetchval(
            f'select count(*) from penstock."{table}" where "{column}" = any ($1::bigint[])', list(numbers)
        )
    for row in await connection.fetch("select entries from penstock.folded_postings"):
        kept = {int(key) >> 21 for key in unpack(row["entries"])["key"]}
        found["folded_postings"] = found.get("folded_postings", 0) + len(kept & set(versions))
    found["versions.id"] = await connection.fetchval(
        "select count(*) from penstock.versions where id = any ($1::bigint[])", list(versions)
    )
    found["checkpoints"] = await connection.fetchval(
        "select count(*) from penstock.checkpoints where job_id = any ($1::bigint[])", list(jobs)
    )
    found["job results"] = await connection.fetchval(
        "select count(*) from penstock.job_history where args ->> 'version' = any ($1::text[]) and result::text like '%pages%'",
        [str(version) for version in versions],
    )
    found["blobs given up"] = await connection.fetchval("select count(*) from penstock.blobs where state = 'deleting'")
    found["tombstones that say more than a name"] = await connection.fetchval(
        "select count(*) from penstock.documents where id = any ($1::bigint[]) and (metadata <> '{}' or uploaded_by <> '' or "
        "media_type is not null or error is not null or live_id is not null)",
        list(documents),
    )
    found["events that quote"] = await connection.fetchval(
        "select count(*) from penstock.events where document_id = any ($1::bigint[]) and details ?| array['message', 'by']",
        list(documents),
    )
    return {what: count for what, count in found.items() if count}
