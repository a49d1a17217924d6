"""Documents with all rows that preparing them would make, for tests of the integrity checks."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from asyncpg import Record

from penstock.documents import keep_pages, load_work, publish
from penstock.documents.integrity import Check, CheckedPages, check_documents, run_check
from penstock.engine.job import Job
from penstock.extraction.result import Page
from penstock.search import Index, IndexBatch, Passage
from tests.documents.conftest import DocumentQueue

TABLES = (
    "hidden_versions",
    "indexed_batches",
    "chunks",
    "pages",
    "postings",
    "vectors_static",
    "folded_vectors_static",
)
TEXTS = ("the pump lifts the water", "the valve holds it", "a turbine turns")


class IndexedDocuments:
    """A document queue whose documents are in the index."""

    def __init__(self, document_queue: DocumentQueue) -> None:
        self.document_queue = document_queue
        self.run = document_queue.run
        self.database = document_queue.app.database
        self.index = Index()

    async def add(self, name: str = "a.txt", texts: Sequence[str] = TEXTS, **more: Any) -> tuple[int, int]:
        """A document that is ready: its number and its version's."""
        accepted = await self.document_queue.add(name, "\n".join([name, *texts]).encode(), **more)
        await self.prepare(await self.document_queue.claim_one(), texts)
        [row] = await self.run("select live_id from penstock.documents where id = $1", accepted.id)
        return accepted.id, row["live_id"]

    async def prepare(self, job: Job, texts: Sequence[str] = TEXTS) -> None:
        args = json.loads(job.args)
        context = self.document_queue.job_queue.context(
            job, await self.document_queue.worker(), self.document_queue.kind
        )
        async with context.finish() as tx:
            work = await load_work(tx, args["document"], args["version"])
            assert work is not None
            await keep_pages(tx, work.version, [Page(1, "\n".join(texts))])
            words = await self.index.stage(tx, self.entry(work.version, work.collection, texts))
            assert await publish(tx, work, media_type="text/plain", pages=1, chunks=len(texts), words=words)

    def entry(self, version: int, collection: int, texts: Sequence[str] = TEXTS) -> IndexBatch:
        vectors = np.zeros((len(texts), 256), dtype=np.float32)
        vectors[:, 0] = 1
        return IndexBatch.of(
            version=version,
            collection=collection,
            model="static",
            language="english",
            first=0,
            passages=[Passage(1, 0, len(text), "", text) for text in texts],
            vectors=vectors,
        )

    async def check(self, check: Check) -> CheckedPages:
        return await run_check(self.database, check)

    async def check_all(self) -> dict[str, int]:
        """How much each check has found, without those that have found nothing."""
        done = await check_documents(self.document_queue.app, self.document_queue.store)
        return {name: looked["found"] for name, looked in done.items() if looked["found"]}

    async def findings(self) -> list[Record]:
        return await self.run("select * from penstock.findings order by id")

    async def open(self) -> list[str]:
        rows = await self.run("select sentence from penstock.findings where ended_at is null order by id")
        return [row["sentence"] for row in rows]

    async def rows_of(self, version: int) -> int:
        """In every table that has rows of versions."""
        tables = (
            "chunks",
            "pages",
            "hidden_versions",
            "indexed_batches",
            "postings",
            "vectors_static",
            "folded_vectors_static",
        )
        counted = " + ".join(f"(select count(*) from penstock.{table} where version_id = $1)" for table in tables)
        [row] = await self.run(f"select {counted} as rows", version)
        return int(row["rows"])
