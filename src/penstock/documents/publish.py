"""The end of the preparation: everything that was staged becomes visible in one transaction.

    work = await load_work(session, document, version)      # None: replaced or deleted meanwhile, nothing to do
    …
    async with ctx.finish() as tx:
        if await publish(tx, work, media_type=…, pages=…, chunks=…, words=…):
            …

A version that is no longer the newest, or whose document is deleted, is not published: `publish` returns None, and the rows
that were staged for it are cleaned up (cleaning.py). One of a collection that is searched in Qdrant waits until its points were
counted there (awaiting.py). The SQL is in publish.sql.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.awaiting import Findings, Unpublished, keep_findings
from penstock.documents.naming import share_of
from penstock.documents.reembedding import settle_models
from penstock.extraction.reading import Page

sql = statements(__file__)

CHARACTERS = 4_000_000  # of pages in one statement


@dataclass(frozen=True, slots=True)
class Work:
    """All that preparing a version needs to know."""

    document: int
    version: int  # the number of the row, which chunks and pages carry
    number: int  # 1 for the first, for people
    tenant: str
    collection: int
    collection_name: str
    name: str
    parent: int | None
    depth: int
    blob_key: str  # of the bytes in the blob store
    digest: bytes
    size: int
    metadata: Mapping[str, Any]
    live: int | None  # the version that search sees at present
    model: str
    next_model: str | None  # whose vectors are wanted, too: the collection is about to change its model
    model_turn: int  # of the collection when this was read (reembedding.py)
    chunk_size: int
    chunk_overlap: int
    ocr_language: str
    search_language: str
    begun: bool  # somebody, in an earlier attempt or job, has staged some of it

    @property
    def share(self) -> str:
        return share_of(self.tenant, self.collection_name)


@dataclass(frozen=True, slots=True)
class Published:
    """It is done. `unwanted` are models whose vectors were staged for nothing (`forget_later`)."""

    unwanted: Sequence[str]
    seconds: float  # since it was accepted


async def load_work(session: Session, document: int, version: int) -> Work | None:
    """None if this version need not be prepared: a newer one is there, or the document is deleted."""
    row = await sql.load_work.first(session, document=document, version=version)
    return None if row is None else _read(row)


async def keep_pages(tx: Session, version: int, pages: Sequence[Page]) -> None:
    """Keep pages of a version that is not live yet; again is the same."""
    bite: list[Page] = []
    for page in pages:
        bite.append(page)
        if sum(len(each.text) for each in bite) > CHARACTERS:
            await _keep(tx, version, bite)
            bite = []
    if bite:
        await _keep(tx, version, bite)


async def _keep(tx: Session, version: int, pages: Sequence[Page]) -> None:
    await sql.keep_pages.run(tx, version=version, **_columns(pages))


def _columns(pages: Sequence[Page]) -> dict[str, list[Any]]:
    return {
        "numbers": [page.number for page in pages],
        "texts": [page.text for page in pages],
        "ocrs": [page.ocr for page in pages],
    }


async def publish(  # noqa: PLR0913  what was found, by name
    tx: Session,
    work: Work,
    *,
    media_type: str,
    title: str = "",
    facts: Mapping[str, Any] | None = None,
    pages: int,
    chunks: int,
    words: int,
    gaps: Sequence[Mapping[str, Any]] = (),
    last: Sequence[Page] = (),
    staged: Sequence[str] | None = None,
    counted: bool = False,
    head: int | None = None,
) -> Published | Unpublished | None:
    """queued -> ready: this version is what search sees from the commit on. None if it is not the newest any more.

    `last` are pages that were not kept before; `staged` the models whose vectors are there for all chunks; `counted` says that
    its points are there, and `head` with which version it is published if that has to wait. Raises what makes the job come
    again when the collection's model is another one by now.
    """
    while len(last) > 1 and sum(len(page.text) for page in last) > CHARACTERS:
        await _keep(tx, work.version, last[:1])
        last = last[1:]
    row = await sql.publish.first(
        tx,
        document=work.document,
        version=work.version,
        collection=work.collection,
        **_columns(last),
        media_type=media_type,
        title=title,
        facts=json.dumps(dict(facts or {})),
        pages=pages,
        chunks=chunks,
        words=words,
        gaps=json.dumps([dict(gap) for gap in gaps]),
        counted=counted,
    )
    if row is not None and row["wants_points"] and not counted:
        staged = list(staged or [work.model])
        found = Findings(
            media_type, title, dict(facts or {}), pages, chunks, words, [dict(gap) for gap in gaps], staged
        )
        return await keep_findings(tx, work, found, head=head or work.version)
    if row is None or row["published"] is None:
        return None
    return Published(await settle_models(tx, work, row, staged=staged or [work.model]), row["seconds"])


def _read(row: Record) -> Work:
    return Work(**{**row, "metadata": json.loads(row["metadata"])})
