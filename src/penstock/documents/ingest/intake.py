"""Intake: bytes are hashed while they are stored, then one transaction writes the blob, document, version, job and event.

Either all of it is written or nothing, and of two concurrent uploads of one name one is refused. The files in the order in
which a document passes through them:

    upload.py        Upload -> CheckedUpload: names and metadata are validated
    idempotency.py   a repeated `Idempotency-Key` gets the first answer
    intake.py        what can be refused before the first byte, the store, the transaction
    bulk.py          the same for many small files at once
    ../lifecycle.py  replace: the next version of a document that is there
    ../notify.py     pages and displays read it again
    attachments.py   later, when a mail or archive is published: its members become documents

Checks before the upload spare clients a gigabyte sent for nothing; the transaction decides. When the answer to its COMMIT is
lost, the intake reads whether it was done.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import asyncpg

from penstock.blobs import BlobStore, StoredBlob
from penstock.database import Session, statements
from penstock.documents.ingest.idempotency import Claim, claim_key
from penstock.documents.ingest.upload import (
    Accepted,
    CheckedUpload,
    ConcurrentChange,
    Upload,
    accepted,
    check_size,
    check_upload,
    count_accepted,
    taken,
)
from penstock.documents.lifecycle import redrive_failed, replace_in
from penstock.documents.names import PREPARE, fairness_key_of, no_such_collection
from penstock.engine import STEP, Admission, Lanes, Penstock, reach
from penstock.errors import (
    BodyTooLarge,
    CallTimedOut,
    ConnectionLost,
    NotFound,
    QueueFull,
    Refused,
    StorageFull,
)

sql = statements(__file__)


KIND = PREPARE
ROUTE = "upload"


@dataclass(frozen=True, slots=True)
class BlobRow:
    """The row of some bytes; `key` is where they are, which need not be where they were just written."""

    id: int
    key: str
    digest: bytes
    size: int


async def keep_blobs(tx: Session, stored: Sequence[StoredBlob], *, tenant: str) -> dict[bytes, BlobRow]:
    """Insert rows for these bytes, deduplicated by digest, in the caller's transaction."""
    wanted = {each.digest: each for each in stored}
    kept: dict[bytes, BlobRow] = {}
    while missing := [wanted[digest] for digest in sorted(wanted.keys() - kept.keys())]:
        # In the order of their digests, so that two archives with the same members do not deadlock. The loser of a race for
        # a new row sees the winner's in the next round.
        rows = await sql.keep_blobs(
            tx,
            tenant=tenant,
            keys=[each.key for each in missing],
            digests=[each.digest for each in missing],
            sizes=[each.size for each in missing],
        )
        kept |= {row["digest"]: BlobRow(**row) for row in rows}
    return kept


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """A document that the transaction has written, by which it is found when the answer to its COMMIT is lost."""

    accepted: Accepted
    key: str  # under which the bytes are kept
    version: int


class Intake:
    """Accepts documents. One for each process."""

    def __init__(self, app: Penstock, store: BlobStore) -> None:
        self.app = app
        self.store = store
        self.trigger: Callable[..., Awaitable[None]] | None = None  # publishes on the bus, if there is one
        self._gate = Admission(Lanes())  # before the upload; the engine's own decides in the transaction

    async def accept(self, upload: Upload, *, tenant: str = "default", collection_id: int | None = None) -> Accepted:
        """Accept a document. Raises `Refused` and QueueFull; then nothing was changed.

        Bulk callers check names themselves and pass `collection_id`; the checks before the upload are then skipped.
        """
        most = self.app.settings.limits.bytes
        if upload.size is not None and upload.size > most:
            raise BodyTooLarge(
                f"{upload.size:,} bytes are more than {most:,}, the most for one document (limits.bytes). Split it, or raise "
                "the limit."
            )
        if upload.idempotency_key is None:
            if collection_id is None:
                checked = await self._check(upload, tenant)
            else:
                checked = check_upload(upload, tenant, collection_id, served=True)
            return await self._store(checked, upload, None)
        key = claim_key(self.app.database, tenant=tenant, route=ROUTE, key=upload.idempotency_key)
        async with key as claim:
            checked = await self._check(upload, tenant, taken_is_fine=claim.answer is not None)
            if claim.answer is None:
                return await self._store(checked, upload, claim)
            digest, _ = await _hash(upload, most)
            return Accepted(**claim.check(checked.fingerprint(digest)))

    async def _check(self, upload: Upload, tenant: str, *, taken_is_fine: bool = False) -> CheckedUpload:
        """Refuse what can be refused before the first byte."""
        checked = check_upload(upload, tenant, 0, served=True)
        row = await self.app.database.pool.repeat(
            sql.look_before.first, tenant=tenant, collection=checked.collection, name=checked.name, kind=KIND
        )
        if row is None:
            raise no_such_collection(checked.collection, "Create it first with `penstock collections create`.")
        if row["existing"] is not None and not upload.replace and not taken_is_fine:
            raise taken(checked.name, checked.collection, row["existing"])
        fairness_key = fairness_key_of(tenant, checked.collection)
        if (
            not taken_is_fine
            and self._gate.bounds(kind := self.app.kinds[KIND])
            and not self._gate.admit_one(kind, fairness_key)
        ):
            await self._gate.admit(self.app.database, [(kind, 1)], fairness_key)
        return replace(checked, collection_id=row["collection_id"], served=row["served"])

    async def _store(self, checked: CheckedUpload, upload: Upload, claim: Claim | None) -> Accepted:
        stored = await self.store.write(upload.content, most=self.app.settings.limits.bytes)
        reach(f"{STEP}accept")
        return await self.finish(checked, stored, claim, upload)

    async def finish(
        self, checked: CheckedUpload, stored: StoredBlob, claim: Claim | None, upload: Upload | None = None
    ) -> Accepted:
        try:
            if upload is not None:
                check_size(upload, stored.size)
            done = await self._commit(checked, stored, claim)
        except (Refused, QueueFull):  # after anything else it may be committed: the garbage collector removes the bytes
            await asyncio.shield(self.store.remove(stored.key))
            raise
        if done.key != stored.key:  # the same content was there
            await asyncio.shield(self.let_go(stored, done.key))
        if claim is not None:
            claim.settled = True
        count_accepted(done.accepted)
        return done.accepted

    async def let_go(self, stored: StoredBlob, kept: str) -> None:
        """Remove bytes that were there already; if the older ones were lost or cut, these take their place."""
        adopt = await self.store.size(kept) != stored.size
        if not adopt or await self.app.database.pool.repeat(sql.adopt.value, lost=kept, key=stored.key) is None:
            await self.store.remove(stored.key)

    async def _commit(self, checked: CheckedUpload, stored: StoredBlob, claim: Claim | None) -> IntakeResult:
        """The transaction, repeated after a concurrent change of the document."""
        while True:
            done: IntakeResult | None = None
            try:
                async with self.app.database.pool.transaction() as tx:
                    done = await self.write(tx, checked, stored)
                    if claim is not None:
                        await claim.settle(tx, checked.fingerprint(stored.digest), 202, done.accepted.answer())
            except (ConnectionLost, CallTimedOut):
                if done is None or not await self.is_there(done.accepted):
                    raise
            except asyncpg.DiskFullError as error:
                raise StorageFull("The disk of the database is full: free some space.") from error
            except (ConcurrentChange, asyncpg.DeadlockDetectedError):
                continue
            return done

    async def is_there(self, accepted: Accepted) -> bool:
        """After a COMMIT without an answer: whether it was done."""
        return bool(
            await self.app.database.pool.repeat(
                sql.was_accepted.value, document=accepted.id, number=accepted.version, job=accepted.job
            )
        )

    async def write(self, tx: Session, checked: CheckedUpload, stored: StoredBlob) -> IntakeResult:
        """All of it, in the caller's transaction. Raises ConcurrentChange: begin a new transaction then."""
        seen = await sql.look_again.first(
            tx, tenant=checked.tenant, collection=checked.collection_id, name=checked.name
        )
        if seen is None:
            raise NotFound(f"Collection {checked.collection} was deleted meanwhile.")
        if seen["id"] is None:
            return await self._insert(tx, checked, stored, checked.number or seen["new_document"], seen["new_version"])
        equal = seen["digest"] == stored.digest
        if not checked.replace:
            raise taken(checked.name, checked.collection, seen["id"], digest_equal=equal)
        return await (self._leave(tx, checked, seen) if equal else self._replace(tx, checked, stored, seen))

    async def _insert(
        self, tx: Session, checked: CheckedUpload, stored: StoredBlob, document: int, version: int
    ) -> IntakeResult:
        blob = (await keep_blobs(tx, [stored], tenant=checked.tenant))[stored.digest]
        job = await self.app.enqueue(
            self.app.kinds[checked.kind](document=document, version=version),
            fairness_key=fairness_key_of(checked.tenant, checked.collection),
            tx=tx,
        )
        made = await sql.insert_document.value(
            tx,
            document=document,
            version=version,
            job=job,
            blob=blob.id,
            tenant=checked.tenant,
            collection=checked.collection_id,
            name=checked.name,
            uploaded_by=checked.uploaded_by,
            metadata=checked.metadata,
        )
        if made is None:  # a concurrent intake has committed: the next round sees its document
            raise ConcurrentChange
        await self.publish_on_bus(tx, checked, document)
        return IntakeResult(accepted(checked, stored, document, 1, int(job)), blob.key, version)

    async def _replace(self, tx: Session, checked: CheckedUpload, stored: StoredBlob, existing: Any) -> IntakeResult:
        blob = (await keep_blobs(tx, [stored], tenant=checked.tenant))[stored.digest]
        replaced = await replace_in(
            tx,
            self.app,
            document=existing["id"],
            job=existing["job_id"],
            version=existing["version_id"],
            blob=blob.id,
            fairness_key=fairness_key_of(checked.tenant, checked.collection),
            metadata=checked.metadata,
            uploaded_by=checked.uploaded_by,
            kind=checked.kind,
        )
        if replaced is None:
            raise ConcurrentChange
        await self.publish_on_bus(tx, checked, existing["id"])
        made = accepted(checked, stored, existing["id"], replaced.number, replaced.job, live=existing["live_number"])
        return IntakeResult(made, blob.key, replaced.version)

    async def publish_on_bus(self, tx: Session, checked: CheckedUpload, document: int) -> None:
        """In the transaction that accepts it; nothing without a bus."""
        if self.trigger is not None:
            await self.trigger(
                tx, checked.collection, document, checked.kind, fairness_key_of(checked.tenant, checked.collection)
            )

    async def _leave(self, tx: Session, checked: CheckedUpload, existing: Any) -> IntakeResult:
        """The same content again: nothing to do, but for a document that failed, which gets another chance."""
        job = existing["job_id"]
        status, message = existing["state"], "unchanged: the same content is there already"
        if status == "failed":
            again = await redrive_failed(tx, self.app, existing["id"])
            if again is None:
                raise ConcurrentChange
            job, status, message = again, "queued", f"{message}, and is retried"
        if json.loads(existing["metadata"]) != json.loads(checked.metadata):
            message += "; its metadata stay as they were"
        accepted = Accepted(
            id=existing["id"],
            version=existing["number"],
            collection=checked.collection,
            name=checked.name,
            status=status,
            created=False,
            unchanged=True,
            served=checked.served,
            message=message,
            digest=existing["digest"].hex(),
            size=existing["size"],
            job=job,
        )
        return IntakeResult(accepted, existing["key"], existing["version_id"])


async def _hash(upload: Upload, most: int) -> tuple[bytes, int]:
    """The digest of a body that need not be kept."""
    digest, size = hashlib.sha256(), 0
    async for piece in upload.content:
        size += len(piece)
        if size > most:
            raise BodyTooLarge(f"More than {most:,} bytes: that is the most for one document (limits.bytes).")
        digest.update(piece)
    check_size(upload, size)
    return digest.digest(), size
