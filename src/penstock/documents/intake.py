"""The way in: bytes go to the store while they are hashed, then one transaction makes the blob, the document, its version, its
job and the event. Either all of it is there or nothing is, and a name is taken by one of those who come at once.

Before the upload it looks whether it can succeed, so that nobody sends a gigabyte for nothing; what counts is decided in the
transaction. When the answer to its COMMIT is lost, it looks whether it was done. The SQL is in intake.sql.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import asyncpg

from penstock.blobs import Store, Stored
from penstock.database import Session, statements
from penstock.documents.changing import redrive_failed, replace_in
from penstock.documents.idempotency import Claim, claim_key
from penstock.documents.keeping import keep_blobs
from penstock.documents.naming import share_of
from penstock.documents.upload import Accepted, Upload, check_size, count_accepted, taken
from penstock.documents.wish import PREPARE, Moved, Wish, accepted, make_wish
from penstock.engine import Penstock
from penstock.engine.admission import Admission
from penstock.engine.failpoint import STEP, reach
from penstock.engine.lanes import Lanes
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
class Done:
    """What the transaction has written: looked for when the answer to its COMMIT is lost."""

    accepted: Accepted
    key: str  # under which the bytes are kept
    version: int


class Intake:
    """Takes documents in. One for each process."""

    def __init__(self, app: Penstock, store: Store) -> None:
        self.app = app
        self.store = store
        self.trigger: Callable[..., Awaitable[None]] | None = None  # tells the bus, if there is one
        self._gate = Admission(Lanes())  # a look of its own, before the upload; the engine's counts in the transaction

    async def accept(self, upload: Upload, *, tenant: str = "default", collection_id: int | None = None) -> Accepted:
        """Put a document in. Raises what is `Refused`, and QueueFull; then nothing was changed.

        Who adds many files looks for all their names at once, and gives the collection's number: then there is no look here.
        """
        most = self.app.settings.limits.bytes
        if upload.size is not None and upload.size > most:
            raise BodyTooLarge(
                f"{upload.size:,} bytes are more than {most:,}, the most for one document (limits.bytes). Split it, or raise "
                "the limit."
            )
        if upload.idempotency_key is None:
            looked = collection_id is not None
            wish = (
                make_wish(upload, tenant, collection_id or 0, served=True)
                if looked
                else await self._look(upload, tenant)
            )
            return await self._take(wish, upload, None)
        key = claim_key(self.app.database, tenant=tenant, route=ROUTE, key=upload.idempotency_key)
        async with key as claim:
            wish = await self._look(upload, tenant, taken_is_fine=claim.answer is not None)
            if claim.answer is None:
                return await self._take(wish, upload, claim)
            digest, _ = await _hash(upload, most)
            return Accepted(**claim.check(wish.fingerprint(digest)))

    async def _look(self, upload: Upload, tenant: str, *, taken_is_fine: bool = False) -> Wish:
        """What can be refused before the first byte."""
        wish = make_wish(upload, tenant, 0, served=True)
        look = partial(sql.look_before.first, tenant=tenant, collection=wish.collection, name=wish.name, kind=KIND)
        row = await self.app.database.pool.repeat(look)
        if row is None:
            raise NotFound(
                f"There is no collection {wish.collection}: make it with `penstock collections create` first."
            )
        if row["existing"] is not None and not upload.replace and not taken_is_fine:
            raise taken(wish.name, wish.collection, row["existing"])
        share = share_of(tenant, wish.collection)
        if (
            not taken_is_fine
            and self._gate.bounds(kind := self.app.kinds[KIND])
            and not self._gate.admit_one(kind, share)
        ):
            await self._gate.admit(self.app.database, [(kind, 1)], share)
        return replace(wish, collection_id=row["collection_id"], served=row["served"])

    async def _take(self, wish: Wish, upload: Upload, claim: Claim | None) -> Accepted:
        stored = await self.store.write(upload.content, most=self.app.settings.limits.bytes)
        reach(f"{STEP}accept")
        return await self.finish(wish, stored, claim, upload)

    async def finish(self, wish: Wish, stored: Stored, claim: Claim | None, upload: Upload | None = None) -> Accepted:
        try:
            if upload is not None:
                check_size(upload, stored.size)
            done = await self._commit(wish, stored, claim)
        except (Refused, QueueFull):  # of anything else nobody knows whether it was committed: the collector will see
            await asyncio.shield(self.store.remove(stored.key))
            raise
        if done.key != stored.key:  # the same content was there
            await asyncio.shield(self.let_go(stored, done.key))
        if claim is not None:
            claim.settled = True
        count_accepted(done.accepted)
        return done.accepted

    async def let_go(self, stored: Stored, kept: str) -> None:
        """Our bytes are not needed, because the same are there; unless those were lost or cut: then ours take their place."""
        if await self.store.size(kept) != stored.size:
            adopt = partial(sql.adopt.value, lost=kept, key=stored.key)
            if await self.app.database.pool.repeat(adopt) is not None:
                return
        await self.store.remove(stored.key)

    async def _commit(self, wish: Wish, stored: Stored, claim: Claim | None) -> Done:
        """The transaction, again while a document changes under our hands."""
        while True:
            done: Done | None = None
            try:
                async with self.app.database.pool.transaction() as tx:
                    done = await self.write(tx, wish, stored)
                    if claim is not None:
                        await claim.settle(tx, wish.fingerprint(stored.digest), 202, done.accepted.answer())
            except (ConnectionLost, CallTimedOut):
                if done is None or not await self.is_there(done.accepted):
                    raise
            except asyncpg.DiskFullError as error:
                raise StorageFull("There is no room left in the database: free some disk space.") from error
            except (Moved, asyncpg.DeadlockDetectedError):
                continue
            return done

    async def is_there(self, accepted: Accepted) -> bool:
        """After a COMMIT without an answer: whether it was done."""
        look = partial(sql.was_accepted.value, document=accepted.id, number=accepted.version, job=accepted.job)
        return bool(await self.app.database.pool.repeat(look))

    async def write(self, tx: Session, wish: Wish, stored: Stored) -> Done:
        """All of it, in the caller's transaction. Raises Moved when somebody else was faster: begin a new one."""
        seen = await sql.look_again.first(tx, tenant=wish.tenant, collection=wish.collection_id, name=wish.name)
        if seen is None:
            raise NotFound(f"The collection {wish.collection} was deleted meanwhile.")
        if seen["id"] is None:
            return await self._insert(tx, wish, stored, wish.number or seen["new_document"], seen["new_version"])
        equal = seen["digest"] == stored.digest
        if not wish.replace:
            raise taken(wish.name, wish.collection, seen["id"], digest_equal=equal)
        return await (self._leave(tx, wish, seen) if equal else self._replace(tx, wish, stored, seen))

    async def _insert(self, tx: Session, wish: Wish, stored: Stored, document: int, version: int) -> Done:
        blob = (await keep_blobs(tx, [stored], tenant=wish.tenant))[stored.digest]
        job = await self.app.enqueue(
            self.app.kinds[wish.kind](document=document, version=version),
            share=share_of(wish.tenant, wish.collection),
            tx=tx,
        )
        made = await sql.insert_document.value(
            tx,
            document=document,
            version=version,
            job=job,
            blob=blob.id,
            tenant=wish.tenant,
            collection=wish.collection_id,
            name=wish.name,
            uploaded_by=wish.uploaded_by,
            metadata=wish.metadata,
        )
        if made is None:  # somebody was faster, and has committed: the next round sees what is there
            raise Moved
        await self.tell_bus(tx, wish, document)
        return Done(accepted(wish, stored, document, 1, int(job)), blob.key, version)

    async def _replace(self, tx: Session, wish: Wish, stored: Stored, existing: Any) -> Done:
        blob = (await keep_blobs(tx, [stored], tenant=wish.tenant))[stored.digest]
        replaced = await replace_in(
            tx,
            self.app,
            document=existing["id"],
            job=existing["job_id"],
            version=existing["version_id"],
            blob=blob.id,
            share=share_of(wish.tenant, wish.collection),
            metadata=wish.metadata,
            uploaded_by=wish.uploaded_by,
            kind=wish.kind,
        )
        if replaced is None:
            raise Moved
        await self.tell_bus(tx, wish, existing["id"])
        made = accepted(wish, stored, existing["id"], replaced.number, replaced.job, live=existing["live_number"])
        return Done(made, blob.key, replaced.version)

    async def tell_bus(self, tx: Session, wish: Wish, document: int) -> None:
        """In the transaction that accepts it; nothing without a bus."""
        if self.trigger is not None:
            await self.trigger(tx, wish.collection, document, wish.kind, share_of(wish.tenant, wish.collection))

    async def _leave(self, tx: Session, wish: Wish, existing: Any) -> Done:
        """The same content again: nothing to do, but for a document that failed, which gets another chance."""
        job = existing["job_id"]
        status, message = existing["state"], "unchanged: the same content is there already"
        if status == "failed":
            again = await redrive_failed(tx, self.app, existing["id"])
            if again is None:
                raise Moved
            job, status, message = again, "queued", f"{message}, and is tried again"
        if json.loads(existing["metadata"]) != json.loads(wish.metadata):
            message += "; its metadata stay as they were"
        accepted = Accepted(
            id=existing["id"],
            version=existing["number"],
            collection=wish.collection,
            name=wish.name,
            status=status,
            created=False,
            unchanged=True,
            served=wish.served,
            message=message,
            digest=existing["digest"].hex(),
            size=existing["size"],
            job=job,
        )
        return Done(accepted, existing["key"], existing["version_id"])


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
