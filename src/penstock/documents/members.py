"""Attachments of mails and files in archives become documents of their own: `parent!/member`, one deeper, with a job each.

Publishing the parent again is the same again: a member with the same content is left alone, with other content it gets a new
version, and one that is not inside any more is deleted, with all that was inside of it. The metadata are always those of the
parent. The SQL is in members.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from asyncpg import Record

from penstock.blobs import Stored
from penstock.database import Session, statements
from penstock.documents.changing import KIND, replace_in
from penstock.documents.deletion import delete_in
from penstock.documents.keeping import Kept, keep_blobs
from penstock.documents.naming import member_name, numbered
from penstock.documents.publish import Work
from penstock.engine import Penstock
from penstock.engine.queue import insert_jobs
from penstock.engine.trail import stamp_args
from penstock.errors import Transient

sql = statements(__file__)

DEEPER = 1000  # documents inside of members that are gone, deleted at once; reconcile finds the others


@dataclass(frozen=True, slots=True)
class Members:
    """What became of the members of a document."""

    documents: Sequence[int] = ()  # all of them, new and old
    added: int = 0
    replaced: int = 0
    deleted: int = 0
    unneeded: Sequence[str] = ()  # keys in the blob store whose bytes were there already: remove them after the commit


async def add_members(tx: Session, app: Penstock, work: Work, members: Sequence[tuple[str, Stored]]) -> Members:
    """Make documents of what was inside, in the transaction that publishes `work`.

    Nothing is done for a version that is not the newest any more.
    """
    parent = await sql.newest.first(tx, document=work.document, version=work.version)
    if parent is None:
        return Members(unneeded=[stored.key for _, stored in members])
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
        await sql.pass_on.run(tx, parent=work.document)
    used = {blob.key for blob in kept.values()}
    return Members(
        documents=[*added, *(present[name]["id"] for name in named if name in present)],
        added=len(added),
        replaced=len(changed),
        deleted=deleted,
        unneeded=[stored.key for _, stored in members if stored.key not in used],
    )


@dataclass(frozen=True, slots=True)
class Family:
    """All documents of one upload: a small archive can become a billion of them, or many terabytes."""

    documents: int
    size: int  # bytes of all of them
    uploaded: int  # bytes of what they came in


async def count_family(session: Session, document: int) -> Family:
    """The family to which this document belongs."""
    [row] = await sql.count_family(session, document=document)
    return Family(**row)


async def _name(tx: Session, work: Work, members: Sequence[tuple[str, Stored]]) -> dict[str, Stored]:
    """Names that are free, or belong to a member already: an upload may have taken one, and an archive may have one twice."""
    wanted = [(member_name(work.name, name), stored) for name, stored in members]
    rows = await sql.foreign_names(
        tx, tenant=work.tenant, collection=work.collection, parent=work.document, prefix=f"{work.name}!/"
    )
    taken = {row["name"] for row in rows}
    named: dict[str, Stored] = {}
    for name, stored in wanted:
        free, number = name, 1
        while free in taken or free in named:
            number += 1
            free = numbered(name, number)
        named[free] = stored
    return named


async def _delete(tx: Session, gone: list[int]) -> int:
    """Members that are not inside any more, and what was inside of them: search must not find it longer than them."""
    deeper = [row["id"] for row in await sql.inside_of(tx, ids=gone, most=DEEPER)]
    return await delete_in(tx, [*gone, *deeper], "not inside any more")


async def _replace(tx: Session, app: Penstock, work: Work, row: Record, *, parent: Record, blob: Kept) -> None:
    done = await replace_in(
        tx,
        app,
        document=row["id"],
        job=row["job_id"],
        version=row["version_id"],
        blob=blob.id,
        share=work.share,
        metadata=parent["metadata"],
        uploaded_by=parent["uploaded_by"],
    )
    if done is None:
        raise Transient(f"The member {row['name']} was changed by somebody else at the same moment.")


async def _add(tx: Session, app: Penstock, work: Work, blobs: dict[str, Kept]) -> list[int]:
    """Not by `enqueue`, which may refuse: they belong to something that was let in."""
    if not blobs:
        return []
    kind = app.kinds[KIND]
    lane: int | None = await sql.lane_of.value(tx, queue=kind.queue, kind=kind.name, share=work.share)
    ids = await sql.reserve(tx, count=len(blobs))
    calls = [kind(document=row["document"], version=row["version"]) for row in ids]
    jobs = await insert_jobs(
        tx,
        lanes=[lane or await sql.add_lane.value(tx, queue=kind.queue, kind=kind.name, share=work.share)] * len(calls),
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
