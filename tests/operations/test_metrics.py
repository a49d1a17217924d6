"""The gauges of the fleet: what they tell is right, and reading them does not take longer with more documents."""

import json
from collections.abc import Iterator
from typing import Any

from penstock.database import Session, Statement
from penstock.database.tenancy import only
from penstock.documents import stats as documents
from penstock.engine.inspect import queries as jobs
from penstock.operations import FleetGauges, metrics
from penstock.operations.metrics import read_fleet
from penstock.telemetry import described
from tests.documents.conftest import DocumentQueue, app, document_queue
from tests.engine.query_plans import nodes

__all__ = ["app", "document_queue"]

LARGE = {"documents", "versions", "events", "jobs", "inbox", "findings", "tallies"}
FILL = """
insert into penstock.lanes (id, queue, kind, fairness_key) overriding system value
  select n, 'documents', 'prepare_document', n::text from generate_series(1001, 1300) as n;
insert into penstock.collections (id, name, model, chunk_size, chunk_overlap, ocr_language, search_language)
  overriding system value
  select n, n::text, 'static', 1000, 0, 'eng', 'english' from generate_series(1001, 1020) as n;
insert into penstock.jobs (id, lane, args) select n, 1001 + n % 300, '{}' from generate_series(1, 4000) as n;
insert into penstock.jobs (id, lane, args, state, error, fingerprint)
  select n, 1001, '{}', 'dead', '{}', 'f' from generate_series(4001, 8000) as n;
insert into penstock.jobs (id, lane, args, state, run_at)
  select n, 1001, '{}', 'later', penstock.now() from generate_series(8001, 12000) as n;
insert into penstock.jobs (id, lane, args, state, waits_for)
  select n, 1001, '{}', 'waiting', 1 from generate_series(12001, 16000) as n;
insert into penstock.documents (id, collection_id, name, state, job_id)
  select 20000 + n, 1001 + n % 20, n::text, 'queued', n from generate_series(1, 4000) as n;
insert into penstock.documents (id, collection_id, name, state, error, job_id)
  select 30000 + n, 1001 + n % 20, 'f' || n, 'failed', '{}', n from generate_series(4001, 8000) as n;
insert into penstock.documents (id, collection_id, name, state, version_id, live_id)
  select 40000 + n, 1001 + n % 20, 'r' || n, 'ready', n, n from generate_series(1, 8000) as n;
insert into penstock.events (collection_id, document_id, event, details)
  select 1001, 40000 + n, 'ready', '{"gaps": 0}' from generate_series(1, 8000) as n;
insert into penstock.inbox (source, message_id, digest, payload, state, error)
  select 'orders', n::text, sha256(''), '{}', case when n % 2 = 0 then 'waiting' else 'failed' end,
    case when n % 2 = 1 then '{}'::jsonb end from generate_series(1, 4000) as n;
insert into penstock.inbox (source, message_id, digest, state)
  select 'orders', 't' || n, sha256(''), 'taken' from generate_series(1, 4000) as n;
insert into penstock.findings (check_name, subject, sentence, advice, ended_at)
  select 'blobs', n, 's', 'a', penstock.now() from generate_series(1, 4000) as n;
insert into penstock.checks (name) values ('blobs') on conflict do nothing;
"""
FEW = {"most": 20}
READ: dict[str, tuple[Statement, dict[str, Any]]] = {
    "documents": (documents.sql.count_everywhere, FEW | {"begun": 5}),
    "documents lately": (documents.sql.count_lately, FEW),
    "lanes": (jobs.sql.waiting_lanes, {"most_lanes": 20, "most_rows": 20, "least_rows": 2}),
    "waits": (jobs.sql.served_waits, {"most_lanes": 20, "looked_at": 3}),
    "jobs": (jobs.sql.count_states, FEW),
    "dead": (metrics.sql.count_dead, FEW | {"kinds": ["prepare_document"], "unreadable": ["Corrupt"]}),
    "inbox": (metrics.sql.count_inbox, FEW),
    "findings": (metrics.sql.count_findings, {}),
}


def walked(plan: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    for node in nodes(plan):
        rows = node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0) * node["Actual Loops"]
        if node.get("Relation Name") in LARGE and (node["Node Type"] == "Seq Scan" or rows > 1000):
            yield node["Relation Name"], node["Node Type"], rows


async def test_no_gauge_walks_through_a_table(document_queue: DocumentQueue) -> None:
    async with document_queue.app.database.pool.transaction() as tx:
        await tx.execute("set local session_replication_role = replica")
        await tx.execute(FILL)
    for statistics in ("none", "some"):
        if statistics == "some":
            await document_queue.run("analyze")
        for name, (statement, values) in READ.items():
            [row] = await document_queue.run(
                f"explain (analyze, timing off, format json) {statement.text}", *statement.arguments(values)
            )
            found = [each for each in walked(json.loads(row[0])[0]["Plan"]) if each[0] != "tallies"]
            assert not found, f"{name}, statistics: {statistics}: {found}"


async def test_every_gauge_that_is_described_is_told(document_queue: DocumentQueue) -> None:
    text = (await FleetGauges(document_queue.app.database).render()).decode()
    for each in described.values():
        if each.fleet:
            assert f"# TYPE {each.name} {each.type}\n" in text


async def values(document_queue: DocumentQueue) -> dict[str, float]:
    """Samples as `penstock_documents status=ready`."""

    async def read(session: Session) -> dict[str, float]:
        return {
            " ".join(
                [metric.name, *(f"{label}={text}" for label, text in zip(metric.labels, labels, strict=True))]
            ): value
            for metric, samples in (await read_fleet(session)).items()
            for labels, value in samples
        }

    return await document_queue.app.database.pool.repeat(read)


async def test_documents(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt", b"1")
    assert await document_queue.publish(await document_queue.claim_one())
    await document_queue.add("b.txt", b"2")
    assert await document_queue.publish(await document_queue.claim_one(), gaps=[{"page": 1, "reason": "torn"}])
    await document_queue.add("c.txt", b"3")
    await document_queue.bury(await document_queue.claim_one())
    await document_queue.add("d.txt", b"4")
    await document_queue.claim_one()
    await document_queue.add("e.txt", b"5")
    await document_queue.add("a.txt", b"6", replace=True)  # search goes on seeing the first version
    found = await values(document_queue)
    status = {"queued": 2, "processing": 1, "ready": 1, "failed": 1, "deleted": 0}
    assert {key: found[f"penstock_documents status={key}"] for key in status} == status
    lately = {"accepted": 6, "ready": 1, "partial": 1, "failed": 1}
    assert {key: found[f"penstock_documents_lately event={key}"] for key in lately} == lately
    assert "penstock_dead_letters kind=prepare_document" not in found, "its content is the reason"
    states = {"ready": 2, "running": 1, "dead": 1, "later": 0, "waiting": 0, "quarantined": 0}
    assert {key: found[f"penstock_jobs state={key}"] for key in states} == states
    await document_queue.run("update penstock.jobs set error = jsonb_set(error::jsonb, '{type}', '\"OSError\"')")
    assert (await values(document_queue))["penstock_dead_letters kind=prepare_document"] == 1
    await document_queue.run("update penstock.test_clock set shift = shift + interval '61 minutes'")
    assert (await values(document_queue))["penstock_documents_lately event=accepted"] == 0


async def test_the_gauges_are_about_all_tenants(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    with only("somebody-else"):  # who asks belongs to a tenant
        text = (await FleetGauges(document_queue.app.database).render()).decode()
    assert 'penstock_documents{status="queued"} 1.0' in text


async def test_workers_that_come_and_go(document_queue: DocumentQueue) -> None:
    worker = await document_queue.worker()
    found = await values(document_queue)
    assert found["penstock_workers_alive"] == found["penstock_workers_serving_documents"] == 1
    assert found["penstock_workers_lately event=started"] == 1
    for why, event in (("left", "left"), ("its process ended", "process_ended"), ("its lease ended", "lease_ended")):
        await document_queue.run(
            "update penstock.workers set gone_at = penstock.now(), gone_why = $1 where id = $2", why, worker
        )
        found = await values(document_queue)
        assert found[f"penstock_workers_lately event={event}"] == 1
        assert found["penstock_workers_alive"] == 0
    await document_queue.run("update penstock.test_clock set shift = shift + interval '61 minutes'")
    found = await values(document_queue)
    assert found["penstock_workers_lately event=lease_ended"] == found["penstock_workers_lately event=started"] == 0


async def test_what_nobody_serves_and_what_waits(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    found = await values(document_queue)
    assert found["penstock_unserved_jobs queue=documents kind=prepare_document"] == 1
    assert "penstock_queue_wait_seconds queue=documents kind=prepare_document" not in found
    await document_queue.worker()
    await document_queue.run("update penstock.jobs set enqueued_at = penstock.now() - interval '20 minutes'")
    found = await values(document_queue)
    assert "penstock_unserved_jobs queue=documents kind=prepare_document" not in found
    assert 1200 <= found["penstock_queue_wait_seconds queue=documents kind=prepare_document"] < 1260


async def test_sources_and_schedules(document_queue: DocumentQueue) -> None:
    await document_queue.run(
        "insert into penstock.sources (name, polled_at, error, error_since) values "
        "('orders', penstock.now() - interval '90 seconds', 'no route', penstock.now()), ('bills', null, null, null)"
    )
    await document_queue.run(
        "insert into penstock.inbox (source, message_id, digest, payload, state, error) values "
        "('hook', '1', sha256(''), '{}', 'waiting', null), ('orders', '1', sha256(''), '{}', 'failed', '{}')"
    )
    await document_queue.run(
        "insert into penstock.schedules (name, fairness_key, rule, timezone, queue, kind, args, missed, overlap, origin, "
        "next_at) select name, '_system', 'every 5m', 'UTC', 'default', 'tidy', '{}', 'one', 'skip', 'api', "
        "penstock.now() + interval '1 minute' from unnest(array['one', 'two', 'three']) as name"
    )
    await document_queue.run("update penstock.schedules set rule = 'every 6m' where name = 'three'")
    found = await values(document_queue)
    assert found["penstock_source_trouble source=orders"] == 1
    assert found["penstock_source_trouble source=bills"] == 0
    assert 90 <= found["penstock_source_silent_seconds source=orders"] < 120
    assert found["penstock_inbox_unsettled source=hook state=waiting"] == 1
    assert found["penstock_inbox_unsettled source=orders state=failed"] == 1
    assert found["penstock_schedules state=active"] == 3
    assert found["penstock_schedule_duplicates"] == 1, "one and two do the same at the same moments"
