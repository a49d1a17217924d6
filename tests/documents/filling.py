"""Documents with real rows in the index, prepared by hand: so that removing them has something to remove."""

import json
from collections.abc import Sequence
from typing import Any

from penstock.documents import Accepted, keep_pages, load_work, publish
from penstock.engine.job import Job
from penstock.extraction.reading import Page
from penstock.search import Entry, Index, Passage, prepare_model
from tests.documents.conftest import Office

DIMENSIONS = 256


async def entry_of(office: Office, version: int, collection: int, texts: Sequence[str], first: int = 0) -> Entry:
    import numpy as np

    await prepare_model(office.app.database, "static", DIMENSIONS)
    vectors = np.eye(len(texts), DIMENSIONS, dtype=np.float32)
    return Entry.of(
        version=version,
        collection=collection,
        model="static",
        language="english",
        first=first,
        passages=[Passage(1, 0, len(text), "", text) for text in texts],
        vectors=vectors,
    )


async def prepare(office: Office, job: Job, texts: Sequence[str]) -> bool:
    """What the pipeline does with a job that was claimed."""
    args = json.loads(job.args)
    async with office.app.database.pool.session() as session:
        work = await load_work(session, args["document"], args["version"])
    if work is None:
        return False
    entry = await entry_of(office, work.version, work.collection, texts)
    context = office.shop.context(job, await office.worker(), office.kind)
    async with context.finish() as tx:
        await keep_pages(tx, work.version, [Page(1, " ".join(texts))])
        words = await Index().stage(tx, entry)
        published = await publish(
            tx, work, media_type="text/plain", title="T", pages=1, chunks=len(texts), words=words, gaps=()
        )
        return published is not None


async def fill(
    office: Office, name: str = "a.txt", texts: Sequence[str] = ("the mill", "a gate"), **more: Any
) -> Accepted:
    """A document that is ready, and found."""
    accepted = await office.add(name, more.pop("content", " ".join(texts).encode()), **more)
    [job] = [job for job in await office.claim() if job.kind == "prepare_document"]
    assert await prepare(office, job, texts)
    return accepted


async def numbers(office: Office, *documents: int) -> tuple[list[int], list[int]]:
    """The versions and jobs of documents, while there are some."""
    rows = await office.run("select id, job_id from penstock.versions where document_id = any ($1)", list(documents))
    return [row["id"] for row in rows], [row["job_id"] for row in rows]
