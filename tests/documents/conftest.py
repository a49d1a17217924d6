"""Documents without workers: tests accept, claim, publish and fail them by hand."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asyncpg import Record

from penstock.blobs import BlobStore, open_store
from penstock.documents import (
    Accepted,
    Document,
    Intake,
    Upload,
    create_collection,
    list_events,
    load_work,
    publish,
    show_document,
)
from penstock.engine import Context, Kind, Penstock
from penstock.engine.job import Dead, Failure, Job
from penstock.settings import DatabaseUrl
from tests.engine.conftest import JobQueue

NEVER = "0" * 12


async def prepare_document(ctx: Context, document: int, version: int) -> None:
    """The tests do the work."""


async def pieces(content: bytes, size: int = 65536) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


class DocumentQueue:
    """An open application with a collection `files`, a store, and a worker that is only a row."""

    def __init__(self, app: Penstock, store: BlobStore) -> None:
        self.app = app
        self.store = store
        self.intake = Intake(app, store)
        self.job_queue = JobQueue(app.database)
        self.run = self.job_queue.run
        self._worker = 0

    @property
    def kind(self) -> Kind:
        return self.app.kinds["prepare_document"]

    async def add(
        self,
        name: str = "a.txt",
        content: bytes = b"water",
        *,
        collection: str = "files",
        tenant: str = "default",
        **more: Any,
    ) -> Accepted:
        return await self.intake.accept(Upload(collection, name, pieces(content), **more), tenant=tenant)

    async def show(self, document: int) -> Document:
        return await show_document(self.app, document)

    async def status(self, document: int) -> str:
        return (await self.show(document)).status

    async def events(self, document: int) -> list[str]:
        return [each.event for each in await list_events(self.app, document)]

    async def worker(self) -> int:
        if not self._worker:
            self._worker = await self.job_queue.worker(self.kind)
        return self._worker

    async def claim(self) -> list[Job]:
        return await self.job_queue.claim(await self.worker(), queue="documents")

    async def claim_one(self) -> Job:
        [job] = await self.claim()
        return job

    async def bury(self, job: Job, kind: str = "Encrypted", message: str = "a password is needed") -> None:
        failure = Failure("Permanent", kind, message, "Traceback …", NEVER, step="read")
        await self.job_queue.settle(await self.worker(), (job, Dead(failure)))

    async def publish(self, job: Job, *, chunks: int = 2, words: int = 10, gaps: Any = (), pages: int = 1) -> bool:
        """What the pipeline does at the end of a job."""
        args = json.loads(job.args)
        context = self.job_queue.context(job, await self.worker(), self.kind)
        async with context.finish() as tx:
            work = await load_work(tx, args["document"], args["version"])
            if work is None:
                return False
            published = await publish(
                tx, work, media_type="text/plain", title="T", pages=pages, chunks=chunks, words=words, gaps=gaps
            )
            return published is not None

    async def ready(self, name: str = "a.txt", content: bytes = b"water", **more: Any) -> Accepted:
        """A document that was prepared."""
        accepted = await self.add(name, content, **more)
        assert await self.publish(await self.claim_one())
        return accepted

    async def files(self) -> list[str]:
        return sorted([key async for key, _ in self.store.keys("")])

    async def rows(self, table: str) -> list[Record]:
        return await self.run(f"select * from penstock.{table} order by 1")


@pytest.fixture
async def app(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Penstock]:
    app = Penstock(
        database_url=database_url,
        home=tmp_path,
        pool={"size": 4, "warm": 1, "hold_limit": timedelta(seconds=2)},
        limits={"bytes": "1MB"},
    )
    app.job(queue="documents", max_queue_size=app.settings.limits.waiting)(prepare_document)
    async with app:
        yield app


@pytest.fixture
async def document_queue(app: Penstock) -> AsyncIterator[DocumentQueue]:
    document_queue = DocumentQueue(app, open_store(app.settings))
    await create_collection(app, "files")
    yield document_queue
    document_queue.job_queue.close()
    await asyncio.sleep(0)
