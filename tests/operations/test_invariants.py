"""Invariants: each is broken once, and named; a schedule looks, what it finds is kept, and no page walks a large table."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.database import Database
from penstock.engine import Kind
from penstock.operations import INVARIANTS, FleetGauges, Inspection, examine, verify
from penstock.operations.invariants import check_invariants, sql
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.application import Application, anything
from tests.documents.indexed_documents import IndexedDocuments
from tests.engine.conftest import JobQueue
from tests.slow import slow_but_first

JOB = "insert into penstock.jobs (id, lane, args, state, attempt, attempts, {0}) values (7, 1, '{{}}', {1})"
TRY = "array[row(1, 1, now(), 1, '{0}', null)::penstock.attempt]"
PAST = (
    "insert into penstock.job_history (id, lane, outcome, priority, attempt, failures, enqueued_at, "
    "finished_at, args, attempts) "
    "values (7, 1, 'done', 0, {0}, 0, penstock.now(), penstock.now(), '{{}}', {1})"
)
WORKER = (
    "insert into penstock.workers (name, host, pid, version, queues, kinds, slots, lease, started_at, connections) "
    "values ('w', 'h', 1, 'v', '{{}}', '{{}}', 1, '1 hour', penstock.now() - interval '1 hour', {0})"
)
COLLECTION = (
    "insert into penstock.collections (name, model, chunk_size, chunk_overlap, ocr_language, search_language) "
    "values ('c', 'static', 1000, 100, 'en', 'english')"
)
DOCUMENT = (
    "insert into penstock.documents (id, collection_id, name, state, version_id, live_id, deleted_at, changed_at, parent_id) "
    "values ({0}, 1, 'd{0}', '{1}', {2}, {3}, {4}, penstock.now() - interval '1 hour', null)"
)
VERSION = (
    "insert into penstock.versions (id, document_id, number, blob_id, chunks, prepared_at) "
    "values (1, 70, 1, {0}, 2, now())"
)
MESSAGE = (
    "insert into penstock.inbox (id, source, message_id, digest, payload, state, job_id, document_id) "
    "values (7, 's', 'm', sha256('m'), '{{}}', '{0}', 404, {1})"
)
STREAM = "insert into penstock.streams (id, name, last, done) overriding system value values (7, 's', {0}, {1})"
SAID = "insert into penstock.messages (stream_id, seq, message_id, author, text) values (7, {0}, 'm', 'Ann', 'hello')"
MEMO = (
    "insert into penstock.memos (id, stream_id, text, kind, confidence, state, superseded_by, words, llm, job_id) "
    "overriding system value values (7, 7, 'x', 'fact', 1, '{0}', {1}, '', 'main', 1)"
)
BATCH = "insert into penstock.indexed_batches values (1, 0, 1, 2, '')"
CHUNKS = "insert into penstock.chunks select 1, n, 1, 0, 1, '', 'x' from generate_series(0, 1) as n"
READY = [COLLECTION, DOCUMENT.format(70, "ready", 1, 1, "null"), VERSION.format(1)]
PACKET = "insert into penstock.packets (version_id, document_id, digest) values (1, 70, sha256('p'))"
MEMBER = "insert into penstock.packet_documents (version_id, place, name, member_id, member_version) values (1, 0, 'm', 71, 2)"
BLOB = "insert into penstock.blobs (key, digest, size) values ('k', sha256('k'), 1)"
LANE = "insert into penstock.lanes (queue, kind, fairness_key) values ('q', 'k', 's')"
READ = (
    "insert into penstock.extractions (id, collection_id, document_id, version_id, config, llm, embedder, state, job_id) "
    "overriding system value values (1, 1, 70, {0}, 'p', 'main', 'static', 'current', 1)"
)
FACT = (
    "insert into penstock.facts (id, collection_id, version_id, extraction_id, ordinal, kind, statement, quote, page, start, "
    "stop, confidence, words) overriding system value values (7, 1, 1, 1, 0, 'statement', 's', 'the mill', 1, 0, 8, 1, '')"
)
NEAR = "create table penstock.facts_near_static (id bigint primary key, group_id bigint)"

# What breaks each of them, and a part of the sentence that it is told with.
BROKEN: dict[str, tuple[list[str], str]] = {
    "job_is_alive_or_over": (
        [LANE, JOB.format("priority", "'ready', 0, '{}', 0"), PAST.format(1, TRY.format("done"))],
        "Job 7 is alive and in the history",
    ),
    "job_ends_once": ([PAST.format(1, TRY.format("done"))] * 2, "Job 7 is in the history 2 times"),
    "running_has_an_owner": (
        [LANE, JOB.format("worker_id, claimed_at", "'running', 1, '{}', 404, now()")],
        "worker 404 does not exist",
    ),
    "later_has_a_due_time": (
        [LANE, WORKER.format(1), JOB.format("run_at", "'later', 0, '{}', penstock.now() - interval '1 hour'")],
        "and was not made ready",
    ),
    "waiting_has_a_blocker": (
        [LANE, JOB.format("waits_for", "'waiting', 0, '{}', 404")],
        "Job 7 waits for fan-out 404",
    ),
    "ready_has_a_lane": ([JOB.format("priority", "'ready', 0, '{}', 0")], "lane 1, which does not exist"),
    "live_attempts_are_counted": (
        [LANE, JOB.format("priority", "'ready', 3, '{}', 0")],
        "0 ended tries and the number 3",
    ),
    "past_attempts_are_counted": ([PAST.format(3, TRY.format("done"))], "1 ended tries and the number 3"),
    "only_the_last_attempt_counts": ([PAST.format(1, TRY.format("lost"))], "its tries are: 1 lost"),
    "unique_job_has_its_key": ([LANE, JOB.format("unique_key", "'ready', 0, '{}', 'ada'")], "without its key ada"),
    "key_has_its_job": (["insert into penstock.job_keys (key, job_id) values ('ada', 404)"], "held by job 404"),
    "children_are_counted": (
        [
            LANE,
            JOB.format("priority", "'ready', 0, '{}', 0"),
            "insert into penstock.fanouts (parent, name, digest, code, total, unfinished) values (7, 'm', '', '', 2, 2)",
        ],
        "counts 2 unfinished children, and there are 0",
    ),
    "permits_are_within_the_limit": (
        [
            WORKER.format(1),
            "insert into penstock.limits (name, permits) values ('ocr', 1)",
            "insert into penstock.allotments (limit_name, worker_id, granted, used, waiting, concurrency) "
            "values ('ocr', 1, 2, 0, 0, 1)",
        ],
        "Limit ocr has given 2 permits of 1",
    ),
    "schedules_are_unique": (
        [
            "insert into penstock.schedules (name, fairness_key, rule, timezone, queue, kind, args, missed, overlap, origin) "
            f"values ('{name}', 's', 'every 1h', 'UTC', 'q', 'clean', '{{}}', 'one', 'skip', 'api')"
            for name in ("old", "new")
        ],
        "The schedules new, old of the fairness key s do the same: clean",
    ),
    "connections_are_within_the_budget": ([WORKER.format(10_000)], "may open 10000 connections"),
    "queued_document_has_a_job": (
        [COLLECTION, DOCUMENT.format(70, "queued", 1, "null", "null")],
        "Document 70 (d70) is queued",
    ),
    "live_version_is_indexed": ([*READY, BATCH, BLOB], "has 2 chunks: 0 rows of them, 2 in the postings"),
    "live_version_is_embedded": ([*READY, BATCH, CHUNKS, BLOB], "has 2 chunks and 0 vectors of the model static"),
    "version_has_its_bytes": ([VERSION.format(404)], "names bytes that are being removed"),
    "accepted_document_is_somewhere": (
        ["insert into penstock.events (collection_id, document_id, event) values (1, 404, 'accepted')"],
        "Document 404 was accepted at",
    ),
    "deleted_document_is_in_line": (
        [COLLECTION, DOCUMENT.format(70, "deleted", 1, "null", "now()")],
        "neither waits for its removal nor has a receipt",
    ),
    "members_follow_their_packet": (
        [*READY, DOCUMENT.format(71, "queued", 2, "null", "null"), PACKET, MEMBER],
        "its member 71 (d71) is queued, and belongs to something else",
    ),
    "taken_message_has_its_document": (
        [MESSAGE.format("taken", 404)],
        "was taken as document 404, which does not exist",
    ),
    "fact_stands_in_its_page": (
        [*READY, READ.format(1), FACT, "insert into penstock.pages values (1, 1, 'a mill')"],
        "Fact 7 of document 70 (d70) does not stand on page 1 from 0 to 8",
    ),
    "fact_is_embedded": (
        [*READY, READ.format(1), FACT, NEAR],
        "Fact 7 of document 70 has no vector of the model static",
    ),
    "entity_is_mentioned": (
        ["insert into penstock.entities (collection_id, type, key, name) values (1, 'person', 'ada', 'Ada')"],
        "Entity 1 (Ada, person) is mentioned by no fact",
    ),
    "facts_are_of_the_live_version": (
        [*READY, READ.format(404)],
        "The facts of document 70 (d70) are of version 404, and search sees version 1",
    ),
    "waiting_message_has_a_job": ([MESSAGE.format("waiting", "null")], "waits, and its job 404 is over"),
    "live_memo_has_messages": ([STREAM.format(0, 0), MEMO.format("live", "null")], "Memo 7 is live, and no message"),
    "replaced_memo_has_its_successor": (
        [STREAM.format(0, 0), MEMO.format("superseded", 404)],
        "Memo 7 is superseded by memo 404",
    ),
    "stream_counts_its_messages": (
        [STREAM.format(1, 1), SAID.format(2)],
        "is done up to message 1 and counts 1, and its newest is 2",
    ),
    "unpublished_is_not_live": (
        [
            *READY,
            "insert into penstock.unpublished (version_id, document_id, head_id, place, model, model_turn, found) "
            "select live_id, id, live_id, 0, 'static', 0, '{}' from penstock.documents",
        ],
        "is live, and waits for its vectors in Qdrant",
    ),
    "leaving_points_are_unseen": (
        [*READY, "insert into penstock.leaving_points select live_id, collection_id from penstock.documents"],
        "search finds document",
    ),
}


async def break_it(database: Database, statements: list[str]) -> None:
    async with database.pool.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")  # triggers and keys would keep us from it
        for statement in statements:
            await tx.execute(statement)


def test_each_has_a_number_and_a_test() -> None:
    assert [invariant.number for invariant in INVARIANTS] == list(range(1, len(INVARIANTS) + 1))
    assert BROKEN.keys() == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize("name", BROKEN)
async def test_it_is_noticed(database: Database, name: str) -> None:
    statements, told = BROKEN[name]
    await break_it(database, statements)
    broken = {verdict.invariant.name: verdict for verdict in await verify(database) if verdict.violations}
    assert name in broken, broken
    assert told in broken[name].shown[0]
    run = await check_invariants(database)
    assert run[broken[name].invariant.number]["violations"] == 1


async def test_nothing_is_broken_by_ordinary_work(indexed_documents: IndexedDocuments) -> None:
    await indexed_documents.add("a.txt")
    await indexed_documents.document_queue.add("b.txt", b"b")
    assert [verdict.shown for verdict in await verify(indexed_documents.database) if verdict.violations] == []


async def test_what_is_found_is_kept_until_it_is_mended(application: Application) -> None:
    await application.worker()
    assert (await application.ask("invariants"))["hold"]
    await application.run("insert into penstock.job_keys (key, job_id) values ('ada', 404)")
    code, said = await application.penstock("invariants")
    assert (code, "11  A key that is held is held by a live job." in said, "held by job 404" in said) == (
        1,
        True,
        True,
    ), said
    text = (await FleetGauges(application.client.database).render()).decode()
    assert 'penstock_invariant_violations{number="11"} 1.0' in text
    assert 'penstock_invariant_violations{number="12"} 0.0' in text
    assert "invariant-" not in text
    [finding] = await examine(application.client.settings)
    assert (finding.name, finding.command, finding.evidence["number"]) == (
        "invariant-violated",
        "penstock invariants",
        11,
    )
    assert finding.sentence.startswith("Invariant 11 is violated by 1 row: A key that is held is held by a live job.")
    await application.run("delete from penstock.job_keys")
    assert (await application.penstock(*finding.command.split()[1:]))[0] == 0
    assert await examine(application.client.settings) == []


async def test_invariants_that_were_not_checked(application: Application) -> None:
    """Only while somebody is there who could; a run of the schedule ends it."""
    await JobQueue(application.client.database).worker(Kind("check_invariants", anything, "upkeep"))
    await application.run("update penstock.workers set started_at = started_at - interval '2 hours'")
    [finding] = [one for one in await examine(application.client.settings) if one.name == "invariants-stale"]
    assert finding.command == "penstock schedules run check-invariants"
    await check_invariants(application.client.database)
    assert not [one for one in await examine(application.client.settings) if one.name == "invariants-stale"]


async def test_a_worker_of_the_product_looks(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}) as product:
        Inspection(product.app)
        assert product.app.schedules["check-invariants", "_system"].rule == "every 10m"
        number = await product.app.enqueue(product.app.kinds["check_invariants"]())
        working = asyncio.create_task(product.app.work(concurrency={"upkeep": 1}))
        done = await product.app.result(number, timeout="20s")
        working.cancel()
        await asyncio.wait([working])
    assert set(done) == {str(invariant.number) for invariant in INVARIANTS}


# -- plans ----------------------------------------------------------------------------------------------------------------

LARGE = {
    *("jobs", "documents", "versions", "blobs", "chunks", "indexed_batches", "events", "inbox", "job_keys", "removals"),
    *("receipts", "hidden_versions"),
}


@pytest.mark.parametrize("statistics", slow_but_first(["fresh", "none"]))
async def test_no_page_walks_through_a_large_table(indexed_documents: IndexedDocuments, statistics: str) -> None:
    from tests.documents.index_rows import FILL

    async with indexed_documents.database.pool.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        await tx.execute(FILL)
        await tx.execute(
            "insert into penstock.job_history (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, args, "
            "attempts) select n, 1, 'done', 0, 0, 0, now(), now(), '{}', '{}' from generate_series(50000, 60000) as n"
        )
        await tx.execute(
            "insert into penstock.inbox (id, source, message_id, digest, payload, job_id) "
            "select n, 's', n::text, sha256('m'), '{}', n from generate_series(1, 4000) as n"
        )
        await tx.execute("insert into penstock.job_keys select n::text, n from generate_series(1, 4000) as n")
        await tx.execute(
            "insert into penstock.events (collection_id, document_id, event) select 1, n, 'accepted' from "
            "generate_series(1, 9000) n"
        )
    if statistics == "fresh":
        await indexed_documents.run("analyze")
    for invariant in INVARIANTS:
        statement = getattr(sql, invariant.name)
        if invariant.over and "model" not in statement.parameters and invariant.over != "keys":
            await assert_bounded(indexed_documents, statement.arguments({"ids": [3000, 3001, 3002]}), statement.text)
        if invariant.over:
            page = getattr(sql, f"page_{invariant.over}")
            values = {"after": "1" if invariant.over == "keys" else 2000, "most": 50, "chunks": 1000}
            wanted = {name: values[name] for name in page.parameters}
            await assert_bounded(indexed_documents, page.arguments(wanted), page.text)


async def assert_bounded(indexed_documents: IndexedDocuments, arguments: list[Any], text: str) -> None:
    [row] = await indexed_documents.run(f"explain (format json) {text}", *arguments)
    for node in _nodes(json.loads(row[0])[0]["Plan"]):
        walks = node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"} and "Index Cond" not in str(node)
        assert not (walks and node.get("Relation Name") in LARGE), (text[:200], node)


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(inner for child in plan.get("Plans", ()) for inner in _nodes(child))]
