"""Attachments of mails and members of archives become documents of their own: `parent!/member`, one deeper, with a job each.

Publishing the parent again is idempotent: a member with the same content is left alone, one with other content gets a new
version, and one that is not inside any more is deleted, with all that was inside of it. The metadata are always those of the
parent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asyncpg import Record

from penstock.blobs import StoredBlob
from penstock.database import Session, statements
from penstock.documents.deletion.delete import delete_in
from penstock.documents.ingest.intake import BlobRow, keep_blobs
from penstock.documents.lifecycle import KIND, replace_in
from penstock.documents.names import member_name, numbered
from penstock.documents.publication import Work
from penstock.engine import Penstock, insert_jobs, lane_id, stamp_args
from penstock.errors import Transient

sql = statements(__file__)

DEEPER = 1000  # members of members that are gone, deleted at once; reconcile finds the others


@dataclass(frozen=True, slots=True)
class Attachments:
    """The members of a document after it was published."""

    documents: Sequence[int] = ()  # all of them, new and old
    added: int = 0
    replaced: int = 0
    deleted: int = 0
    unneeded: Sequence[str] = ()  # keys in the blob store whose bytes were there already: remove them after the commit


@dataclass(frozen=True, slots=True)
class AttachmentCounts:
    """The size of one upload with everything inside: a small archive can become a billion documents, or many terabytes."""

    documents: int
    size: int  # bytes of all of them
    uploaded: int  # bytes of what they came in


async def add_members(tx: Session, app: Penstock, work: Work, members: Sequence[tuple[str, StoredBlob]]) -> Attachments:
    """Create documents for attachments and archive members, in the transaction that publishes `work`.

    Nothing is done for a version that is not the newest any more.
    """
    parent = await sql.newest.first(tx, document=work.document, version=work.version)
    if parent is None:
        return Attachments(unneeded=[stored.key for _, stored in members])
    present = {row["name"]: row for row in await sql.members_of(tx, parent=work.document)}
    named = await _name(tx, work, members)
    kept = await keep_blobs(tx, list(named.values()), tenant=work.tenant)
    new = [name for name in named if name not in present]
    changed = [name for name in named if name in present and present[name]["digest"] != named[name].digest]
    gone = [row["id"] for name, row in present.items() if name not in named]
    for name in changed:
        await _replace(tx, app, work, present[name], parent=parent, blob=kept[named[name].digest])
    deleted = await _delete(tx, gone) if gone else 0
    added = await _add(tx, app, work, {name: kept[named[name].digest] for name in new})
    if present:
        await inherit_metadata(tx, work.document)
    used = {blob.key for blob in kept.values()}
    return Attachments(
        documents=[*added, *(present[name]["id"] for name in named if name in present)],
        added=len(added),
        replaced=len(changed),
        deleted=deleted,
        unneeded=[stored.key for _, stored in members if stored.key not in used],
    )


async def insert_waiting(
    tx: Session, parent: int, job: int | None, blobs: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Insert members that one job prepares, by name and blob; the document and version of each."""
    ids = await sql.reserve(tx, count=len(blobs)) if blobs else []
    if ids:
        await sql.insert_members(
            tx,
            parent=parent,
            documents=[row["document"] for row in ids],
            versions=[row["version"] for row in ids],
            jobs=[job] * len(ids),
            names=list(blobs),
            blobs=list(blobs.values()),
        )
    return {name: (row["document"], row["version"]) for name, row in zip(blobs, ids, strict=True)}


async def inherit_metadata(tx: Session, parent: int) -> None:
    await sql.inherit_metadata.run(tx, parent=parent)


async def count_attachments(session: Session, document: int) -> AttachmentCounts:
    """Count the upload to which this document belongs."""
    [row] = await sql.count_attachments(session, document=document)
    return AttachmentCounts(**row)


async def _name(tx: Session, work: Work, members: Sequence[tuple[str, StoredBlob]]) -> dict[str, StoredBlob]:
    """Names that are free, or belong to the member already: an upload may have taken one, and an archive may have one twice."""
    wanted = [(member_name(work.name, name), stored) for name, stored in members]
    rows = await sql.foreign_names(
        tx, tenant=work.tenant, collection=work.collection, parent=work.document, prefix=f"{work.name}!/"
    )
    taken = {row["name"] for row in rows}
    named: dict[str, StoredBlob] = {}
    for name, stored in wanted:
        free, number = name, 1
        while free in taken or free in named:
            number += 1
            free = numbered(name, number)
        named[free] = stored
    return named


async def _delete(tx: Session, gone: list[int]) -> int:
    """Delete members that the new version does not have, with their own members: search must not find those longer."""
    deeper = [row["id"] for row in await sql.inside_of(tx, ids=gone, most=DEEPER)]
    return await delete_in(tx, [*gone, *deeper], "not inside any more")


async def _replace(tx: Session, app: Penstock, work: Work, row: Record, *, parent: Record, blob: BlobRow) -> None:
    done = await replace_in(
        tx,
        app,
        document=row["id"],
        job=row["job_id"],
        version=row["version_id"],
        blob=blob.id,
        fairness_key=work.fairness_key,
        metadata=parent["metadata"],
        uploaded_by=parent["uploaded_by"],
    )
    if done is None:
        raise Transient(f"Attachment {row['name']} was changed by a concurrent transaction.")


async def _add(tx: Session, app: Penstock, work: Work, blobs: dict[str, BlobRow]) -> list[int]:
    """Not by `enqueue`, which may refuse: they belong to an upload that was accepted."""
    if not blobs:
        return []
    kind = app.kinds[KIND]
    lane = await lane_id(tx, (kind.queue, kind.name, work.fairness_key))
    ids = await sql.reserve(tx, count=len(blobs))
    calls = [kind(document=row["document"], version=row["version"]) for row in ids]
    jobs = await insert_jobs(
        tx,
        lanes=[lane] * len(calls),
        priorities=[0] * len(calls),
        args=stamp_args(call.args for call in calls),
        delays=[None] * len(calls),
        queues={kind.queue},
    )
    rows = await sql.insert_members(
        tx,
        parent=work.document,
        documents=[row["document"] for row in ids],
        versions=[row["version"] for row in ids],
        jobs=list(jobs),
        names=list(blobs),
        blobs=[blob.id for blob in blobs.values()],
    )
    return [row["id"] for row in rows]
