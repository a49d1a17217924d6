"""Publication: everything that was staged for a version becomes visible in one transaction.

    work = await load_work(session, document, version)      # None: replaced or deleted meanwhile, nothing to do
    …
    async with ctx.finish() as tx:
        if await publish(tx, work, media_type=…, pages=…, chunks=…, words=…):
            …

A version that is no longer the newest, or whose document is deleted, is not published: `publish` returns None, and the rows
that were staged for it are cleaned up (deletion/purge.py). A version of a collection that is searched in Qdrant is pending
until its points were counted there; what publishing it needs is kept with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.database import Session, statements
from penstock.documents.migration import settle_models
from penstock.documents.names import PREPARE, PREPARE_PACKET, fairness_key_of
from penstock.engine import Penstock
from penstock.extraction import Page

sql = statements(__file__)


PUBLISH_POINTS = "publish_points"  # the kind of the job
CHARACTERS = 4_000_000  # of pages in one statement


@dataclass(frozen=True, slots=True)
class Work:
    """A version that has to be prepared, with the settings of its collection."""

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
    model_turn: int  # of the collection when this was read (migration.py)
    chunk_size: int
    chunk_overlap: int
    ocr_language: str
    search_language: str
    begun: bool  # an earlier attempt or job has staged some of it

    @property
    def fairness_key(self) -> str:
        return fairness_key_of(self.tenant, self.collection_name)


@dataclass(frozen=True, slots=True)
class Publication:
    """A version that was published. `unwanted` are models whose vectors were staged for nothing (`forget_later`)."""

    unwanted: Sequence[str]
    seconds: float  # since it was accepted


@dataclass(frozen=True, slots=True)
class Findings:
    media_type: str
    title: str
    facts: Mapping[str, Any]
    pages: int
    chunks: int
    words: int
    gaps: Sequence[Mapping[str, Any]]
    staged: Sequence[str]  # models whose vectors are there for all chunks


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """A version that is prepared, and waits until its points are in Qdrant."""

    document: int
    version: int
    head: int
    model: str
    next_model: str | None
    model_turn: int
    found: Findings
    ending: Mapping[str, Any] = field(default_factory=dict)


async def load_work(session: Session, document: int, version: int) -> Work | None:
    """None if this version need not be prepared: a newer one is there, or the document is deleted."""
    row = await sql.load_work.first(session, document=document, version=version)
    return None if row is None else Work(**{**row, "metadata": json.loads(row["metadata"])})


async def keep_pages(tx: Session, version: int, pages: Sequence[Page]) -> None:
    """Keep pages of a version that is not live yet. Idempotent."""
    batch: list[Page] = []
    for page in pages:
        batch.append(page)
        if sum(len(each.text) for each in batch) > CHARACTERS:
            await _keep(tx, version, batch)
            batch = []
    if batch:
        await _keep(tx, version, batch)


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
) -> Publication | PendingVersion | None:
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
    return Publication(await settle_models(tx, work, row, staged=staged or [work.model]), row["seconds"])


# -- versions that wait for their points ---------------------------------------------------------------------------------


async def keep_findings(tx: Session, work: Work, found: Findings, *, head: int) -> PendingVersion | None:
    """Keep the result of a version that cannot be published yet; None if it is not the newest any more."""
    kept = await sql.keep_findings.value(
        tx,
        document=work.document,
        version=work.version,
        head=head,
        model=work.model,
        next_model=work.next_model,
        turn=work.model_turn,
        found=json.dumps(asdict(found)),
    )
    if kept is None:
        return None
    return PendingVersion(work.document, work.version, head, work.model, work.next_model, work.model_turn, found)


async def hand_over(
    tx: Session, app: Penstock, *, document: int, head: int, fairness_key: str, ending: Mapping[str, Any] | None = None
) -> int:
    """Enqueue the job that publishes this version and all that wait with it; its id."""
    job = await app.enqueue(
        app.kinds[PUBLISH_POINTS](document=document, version=head), fairness_key=fairness_key, tx=tx
    )
    await sql.follow_job.run(tx, head=head, job=job)
    if ending:
        await sql.keep_ending.run(tx, head=head, ending=json.dumps(dict(ending)))
    return int(job)


async def load_pending(session: Session, head: int) -> list[PendingVersion]:
    """The versions that wait with this one, in the order in which they are published."""
    rows = await sql.load_pending(session, head=head)
    return [
        PendingVersion(**{**row, "found": Findings(**json.loads(row["found"])), "ending": json.loads(row["ending"])})
        for row in rows
    ]


async def wants_points(session: Session, collection: int) -> bool:
    """Whether versions of the collection need points, at this moment."""
    return bool(await sql.wants_points.value(session, collection=collection))


async def forget_findings(tx: Session, head: int) -> None:
    """Remove the kept results of versions that were published, or are prepared again."""
    await sql.forget_findings.run(tx, head=head)


async def prepare_again(
    tx: Session, app: Penstock, *, document: int, head: int, fairness_key: str, packet: bool
) -> None:
    """Enqueue the preparation once more: the collection has another model by now."""
    call = app.kinds[PREPARE_PACKET if packet else PREPARE](document=document, version=head)
    await sql.follow_job.run(tx, head=head, job=await app.enqueue(call, fairness_key=fairness_key, tx=tx))
    await forget_findings(tx, head)
