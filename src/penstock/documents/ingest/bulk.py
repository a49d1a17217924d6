"""Bulk intake: the bytes of many small files are stored together, and one transaction writes all the documents.

All files go into one collection, and the caller has already checked which names exist. If the batch fails, each file is retried
individually.
"""

import asyncio
from collections.abc import Awaitable, Sequence

import asyncpg

from penstock.blobs import StoredBlob
from penstock.database import statements
from penstock.documents.ingest.intake import KIND, Intake, keep_blobs
from penstock.documents.ingest.upload import (
    Accepted,
    CheckedUpload,
    ConcurrentChange,
    Upload,
    accepted,
    check_size,
    check_upload,
    count_accepted,
)
from penstock.documents.names import fairness_key_of
from penstock.errors import CallTimedOut, ConnectionLost, NotFound, PenstockError, QueueFull, Refused

sql = statements(__file__)


class BulkIntake:
    """Accepts batches, with the help of an `Intake`."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._app = intake.app
        self._blobs = intake.store

    async def accept(
        self, uploads: Sequence[Upload], *, collection_id: int, tenant: str = "default"
    ) -> list[Accepted | BaseException]:
        """For each what was accepted, or why it was not."""
        outcomes: list[Accepted | BaseException] = [NotFound("not tried")] * len(uploads)
        ready: dict[int, tuple[CheckedUpload, StoredBlob]] = {}
        stored = await asyncio.gather(
            *(self._store(upload, tenant, collection_id) for upload in uploads), return_exceptions=True
        )
        for turn, found in enumerate(stored):
            if isinstance(found, BaseException):
                outcomes[turn] = found
            else:
                ready[turn] = found
        if not ready:
            return outcomes
        try:
            outcomes_of_group = await self._commit_many(list(ready.values()))
        except (ConcurrentChange, Refused, QueueFull, asyncpg.PostgresError):  # rolled back: nothing of it is there
            singly = (self._intake.finish(checked, kept, None) for checked, kept in ready.values())
            outcomes_of_group = [await _outcome(single) for single in singly]
        except (
            ConnectionLost,
            CallTimedOut,
        ) as error:  # perhaps committed: the garbage collector removes the bytes if not
            outcomes_of_group = [error] * len(ready)
        for turn, outcome in zip(ready, outcomes_of_group, strict=True):
            outcomes[turn] = outcome
        return outcomes

    async def _store(self, upload: Upload, tenant: str, collection_id: int) -> tuple[CheckedUpload, StoredBlob]:
        checked = check_upload(upload, tenant, collection_id, served=True)
        stored = await self._blobs.write(upload.content, most=self._app.settings.limits.bytes)
        if upload.size is not None and upload.size != stored.size:
            await self._blobs.remove(stored.key)
            check_size(upload, stored.size)
        return checked, stored

    async def _commit_many(self, group: Sequence[tuple[CheckedUpload, StoredBlob]]) -> list[Accepted | BaseException]:
        first = group[0][0]
        async with self._app.database.pool.transaction() as tx:
            ids = await sql.reserve_many(tx, collection=first.collection_id, count=len(group))
            if not ids:
                raise NotFound(f"Collection {first.collection} was deleted meanwhile.")
            blobs = await keep_blobs(tx, [stored for _, stored in group], tenant=first.tenant)
            kind = self._app.kinds[KIND]
            jobs = await self._app.enqueue_many(
                [kind(document=row["document"], version=row["version"]) for row in ids],
                fairness_key=fairness_key_of(first.tenant, first.collection),
                tx=tx,
            )
            made = await sql.insert_documents.value(
                tx,
                documents=[row["document"] for row in ids],
                versions=[row["version"] for row in ids],
                jobs=list(jobs),
                blobs=[blobs[stored.digest].id for _, stored in group],
                names=[checked.name for checked, _ in group],
                by=[checked.uploaded_by for checked, _ in group],
                metadata=[checked.metadata for checked, _ in group],
                tenant=first.tenant,
                collection=first.collection_id,
            )
            if made < len(group):
                raise ConcurrentChange
            for (checked, _), row in zip(group, ids, strict=True):
                await self._intake.publish_on_bus(tx, checked, row["document"])
        for _, stored in group:
            if blobs[stored.digest].key != stored.key:  # the same content was there, or is twice in the group
                await asyncio.shield(self._intake.let_go(stored, blobs[stored.digest].key))
        done = [
            accepted(checked, stored, row["document"], 1, int(job))
            for (checked, stored), row, job in zip(group, ids, jobs, strict=True)
        ]
        for each in done:
            count_accepted(each)
        return [*done]


async def _outcome(single: Awaitable[Accepted]) -> Accepted | BaseException:
    try:
        return await single
    except PenstockError as error:
        return error
