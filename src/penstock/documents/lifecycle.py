"""The lifecycle of a document after its intake: retry, cancel, dismiss, replace, delete.

A document that failed with its job gets the same job again, with the steps that were kept; one whose job was cancelled or
discarded gets a new job for the same version. A document that failed because of its content is unread: another try cannot help,
so it is replaced, or dismissed. Locks are taken in the order jobs, documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.database import Session, statements
from penstock.documents.deletion.delete import delete_page
from penstock.documents.document import UNREADABLE, Document, UnreadDocument
from penstock.documents.names import PREPARE, PREPARE_PACKET, fairness_key_of
from penstock.documents.queries import show_document
from penstock.engine import Penstock, cancel_trees
from penstock.engine.inspect import make_ready
from penstock.errors import WrongState

sql = statements(__file__)

KIND = PREPARE
COUNTED_UNREAD = 10_000  # the newest failed documents of a collection, among which unread ones are counted


@dataclass(frozen=True, slots=True)
class Replacement:
    version: int
    number: int
    job: int


async def retry_document(app: Penstock, document: int, *, tenant: str = "default") -> Document:
    found = await show_document(app, document, tenant=tenant)
    await _refuse_member(app, found, "retry")
    if found.status == "failed":
        async with app.database.pool.transaction() as tx:
            again = await redrive_failed(tx, app, document)
        found = await show_document(app, document, tenant=tenant)
        if again is not None:
            return found
    raise WrongState(_tell_why_not_retried(found))


async def cancel_document(app: Penstock, document: int, *, tenant: str = "default") -> Document:
    """Stop preparing a document; it is failed then, as cancelled. A running job ends with the next heartbeat of its worker."""
    found = await show_document(app, document, tenant=tenant)
    await _refuse_member(app, found, "cancel")
    cancelled: list[int] = []
    if found.status in {"queued", "processing"} and found.job is not None:
        async with app.database.pool.transaction() as tx:
            cancelled = await cancel_trees(tx, [found.job], "cancelled by hand")
        found = await show_document(app, document, tenant=tenant)
    if not cancelled:
        raise WrongState(f"Document {document} ({found.name}) is {found.status}: there is nothing to cancel.")
    return found


async def dismiss_document(app: Penstock, document: int, *, by: str = "", tenant: str = "default") -> Document:
    """Take a document that could not be read off the list of those; it stays failed. Dismissing it again changes nothing."""
    found = await show_document(app, document, tenant=tenant)
    if found.status != "failed":
        raise WrongState(
            f"Document {document} ({found.name}) is {found.status}: only a failed document can be dismissed."
        )
    if not found.is_unreadable:
        raise WrongState(
            f"Document {document} ({found.name}) did not fail because of its content: `penstock why {document}` shows the "
            f"cause. Fix it, then `penstock documents retry {document}`."
        )
    async with app.database.pool.transaction() as tx:
        await sql.dismiss.run(tx, document=document, by=by)
    return await show_document(app, document, tenant=tenant)


async def list_unread(
    session: Session,
    *,
    tenant: str | None = None,
    collection: str | None = None,
    among: Sequence[int] | None = None,
    most: int,
) -> tuple[list[UnreadDocument], int]:
    """Documents that failed because of their content and were not dismissed, the newest first, and how many there are."""
    rows = await sql.list_unread(
        session,
        types=UNREADABLE,
        tenant=tenant,
        collection=collection,
        among=None if among is None else list(among),
        counted=COUNTED_UNREAD,
        most=most,
    )
    names = ("id", "collection", "name", "cause", "reason", "failed_at")
    return [UnreadDocument(**{name: row[name] for name in names}) for row in rows], rows[0]["count"] if rows else 0


async def delete_document(
    app: Penstock,
    document: int,
    *,
    by: str = "",
    reason: str = "deleted by hand",
    now: bool = False,
    tenant: str = "default",
) -> Document:
    """Delete a document and its members: search does not see them from now on. Deleting it again changes nothing.

    With `now` it is removed at once and cannot be restored, also if it was deleted before.
    """
    await show_document(app, document, tenant=tenant)
    await delete_page(app.database, [document], reason, by=by, now=now)
    return await show_document(app, document, tenant=tenant)


async def redrive_failed(tx: Session, app: Penstock, document: int) -> int | None:
    """failed -> queued, in the caller's transaction: the id of the job, or None if it is not failed (any more)."""
    row = await sql.failed_job.first(tx, document=document)
    if row is None:
        return None
    if row["dead"] and row["job_id"] in await make_ready(tx, [row["job_id"]]):
        return int(row["job_id"])  # the document has followed, by its trigger
    if await sql.lock_failed.value(tx, document=document, job=row["job_id"]) is None:
        return None
    kind = PREPARE_PACKET if row["packet"] else KIND
    call = app.kinds[kind](document=document, version=row["version_id"])
    job = await app.enqueue(call, fairness_key=fairness_key_of(row["tenant"], row["collection"]), tx=tx)
    await sql.queue_again.run(tx, document=document, job=job)
    return int(job)


async def replace_in(  # noqa: PLR0913  what the new version is, by name
    tx: Session,
    app: Penstock,
    *,
    document: int,
    job: int | None,
    version: int,
    blob: int,
    fairness_key: str,
    metadata: str,
    uploaded_by: str,
    kind: str = KIND,
) -> Replacement | None:
    """The next version of a document, in the caller's transaction; None if it is not as the caller saw it any more.

    The old version stays live until the new one is ready.
    """
    if job is not None:
        await cancel_trees(tx, [job], "replaced by a newer version")
    ids = await sql.lock_for_replacement.first(tx, document=document, job=job, version=version)
    if ids is None:
        return None
    call = app.kinds[kind](document=document, version=ids["version"])
    new = await app.enqueue(call, fairness_key=fairness_key, tx=tx)
    number = await add_version(tx, document, ids["version"], job=new, blob=blob, metadata=metadata, by=uploaded_by)
    return Replacement(ids["version"], number, int(new))


async def add_version(
    tx: Session, document: int, version: int, *, job: int | None, blob: int, metadata: str = "{}", by: str = ""
) -> int:
    """Make this the newest version of a document, which is locked; its number among them."""
    number: int = await sql.add_version.value(
        tx, document=document, version=version, job=job, blob=blob, metadata=metadata, uploaded_by=by
    )
    return number


async def _refuse_member(app: Penstock, document: Document, what: str) -> None:
    """A document of a packet is prepared by the packet's job: alone it can be neither stopped nor tried again."""
    if document.parent is None or document.status not in {"queued", "processing", "failed"}:
        return
    packet = await app.database.pool.repeat(sql.packet_of.first, document=document.id)
    if packet is not None:
        raise WrongState(
            f"Document {document.id} ({document.name}) is a part of packet {packet['id']}: {what} that one, or send the packet "
            "again with another file in its place."
        )


def _tell_why_not_retried(document: Document) -> str:
    name = f"Document {document.id} ({document.name})"
    match document.status:
        case "ready":
            return f"{name} is ready: upload it again with replace to have it prepared again."
        case "deleted":
            return f"{name} is deleted: upload it again."
    return f"{name} is {document.status} already: `penstock why {document.id}` shows its progress."
