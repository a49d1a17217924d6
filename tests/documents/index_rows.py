"""Documents with real rows in the index, prepared by hand: so that removing them has something to remove."""

import json
from collections.abc import Sequence
from typing import Any

from penstock.documents import Accepted, keep_pages, load_work, publish
from penstock.engine.job import Job
from penstock.extraction.result import Page
from penstock.search import Index, IndexBatch, Passage, prepare_model
from tests.documents.conftest import DocumentQueue

DIMENSIONS = 256


async def entry_of(
    document_queue: DocumentQueue, version: int, collection: int, texts: Sequence[str], first: int = 0
) -> IndexBatch:
    import numpy as np

    await prepare_model(document_queue.app.database, "static", DIMENSIONS)
    vectors = np.eye(len(texts), DIMENSIONS, dtype=np.float32)
    return IndexBatch.of(
        version=version,
        collection=collection,
        model="static",
        language="english",
        first=first,
        passages=[Passage(1, 0, len(text), "", text) for text in texts],
        vectors=vectors,
    )


async def prepare(document_queue: DocumentQueue, job: Job, texts: Sequence[str]) -> bool:
    """What the pipeline does with a job that was claimed."""
    args = json.loads(job.args)
    async with document_queue.app.database.pool.session() as session:
        work = await load_work(session, args["document"], args["version"])
    if work is None:
        return False
    entry = await entry_of(document_queue, work.version, work.collection, texts)
    context = document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind)
    async with context.finish() as tx:
        await keep_pages(tx, work.version, [Page(1, " ".join(texts))])
        words = await Index().stage(tx, entry)
        published = await publish(
            tx, work, media_type="text/plain", title="T", pages=1, chunks=len(texts), words=words, gaps=()
        )
        return published is not None


async def fill(
    document_queue: DocumentQueue, name: str = "a.txt", texts: Sequence[str] = ("the mill", "a gate"), **more: Any
) -> Accepted:
    """A document that is ready, and found."""
    accepted = await document_queue.add(name, more.pop("content", " ".join(texts).encode()), **more)
    [job] = [job for job in await document_queue.claim() if job.kind == "prepare_document"]
    assert await prepare(document_queue, job, texts)
    return accepted


async def numbers(document_queue: DocumentQueue, *documents: int) -> tuple[list[int], list[int]]:
    """The versions and jobs of documents, while there are some."""
    rows = await document_queue.run(
        "select id, job_id from penstock.versions where document_id = any ($1)", list(documents)
    )
    return [row["id"] for row in rows], [row["job_id"] for row in rows]


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
