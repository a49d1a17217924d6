"""Versions that are prepared and wait for their points: what publishing them needs is kept until the points were counted.

    prepare_document ─▶ [rows of search, findings, publish_points] ─▶ points written and counted ─▶ [ready]

Each bracket is one transaction with the end of a job. The document follows the new job from the first one on; its old one is
told in the story, for who removes what it has left. The documents of a packet wait with it, and are published with it: `head`
is the version of the packet. The SQL is in awaiting.sql.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.database import Session, statements
from penstock.documents.wish import PREPARE, PREPARE_PACKET
from penstock.engine import Penstock

if TYPE_CHECKING:
    from penstock.documents.publish import Work

sql = statements(__file__)

PUBLISH_POINTS = "publish_points"


@dataclass(frozen=True, slots=True)
class Findings:
    """What preparing a version has found."""

    media_type: str
    title: str
    facts: Mapping[str, Any]
    pages: int
    chunks: int
    words: int
    gaps: Sequence[Mapping[str, Any]]
    staged: Sequence[str]  # models whose vectors are there for all chunks


@dataclass(frozen=True, slots=True)
class Unpublished:
    """A version that waits for its points."""

    document: int
    version: int
    head: int
    model: str
    next_model: str | None
    model_turn: int
    found: Findings
    ending: Mapping[str, Any] = field(default_factory=dict)


async def keep_findings(tx: Session, work: "Work", found: Findings, *, head: int) -> Unpublished | None:
    """Instead of publishing it; None if it is not the newest any more."""
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
    return Unpublished(work.document, work.version, head, work.model, work.next_model, work.model_turn, found)


async def hand_over(
    tx: Session, app: Penstock, *, document: int, head: int, share: str, ending: Mapping[str, Any] | None = None
) -> int:
    """All that wait with this version follow the job that publishes them, which is put in here; its number."""
    job = await app.enqueue(app.kinds[PUBLISH_POINTS](document=document, version=head), share=share, tx=tx)
    await sql.follow_job.run(tx, head=head, job=job)
    if ending:
        await sql.keep_ending.run(tx, head=head, ending=json.dumps(dict(ending)))
    return int(job)


async def load_unpublished(session: Session, head: int) -> list[Unpublished]:
    """What waits with this version, in the order in which it is published."""
    rows = await sql.load_unpublished(session, head=head)
    return [
        Unpublished(**{**row, "found": Findings(**json.loads(row["found"])), "ending": json.loads(row["ending"])})
        for row in rows
    ]


async def wants_points(session: Session, collection: int) -> bool:
    """Whether versions of the collection need points, at this moment."""
    return bool(await sql.wants_points.value(session, collection=collection))


async def forget_findings(tx: Session, head: int) -> None:
    """They were published, or are prepared again."""
    await sql.forget_findings.run(tx, head=head)


async def prepare_again(tx: Session, app: Penstock, *, document: int, head: int, share: str, packet: bool) -> None:
    """What was prepared cannot be used any more: the collection has another model by now."""
    call = app.kinds[PREPARE_PACKET if packet else PREPARE](document=document, version=head)
    await sql.follow_job.run(tx, head=head, job=await app.enqueue(call, share=share, tx=tx))
    await forget_findings(tx, head)
