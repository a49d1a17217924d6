"""The inbox pipeline: parse a message → fetch its bytes → a document or packet with a job of its own, or a message of a stream.

The settings of its source say how a message is read. The bytes are fetched without a connection, each kept as a step, so that
a later attempt fetches only what is missing. One transaction then writes the document and ends the message. A message that
cannot be used is a dead letter with its reason; it can be redriven when the cause is fixed.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from asyncpg import Record

from penstock import documents
from penstock.blobs import BlobStore, StoredBlob
from penstock.documents.ingest import CheckedUpload, check_upload
from penstock.engine import Context, Penstock
from penstock.errors import BadMessage, BodyTooLarge, NameTaken, NotFound, Permanent, Refused
from penstock.fetch import Fetcher
from penstock.memos import post, read_payload
from penstock.settings import SourceSettings

PIECE = 2**20


class Outrun(Exception):
    """A later message of the source has become the same document already: what this one brings is older."""

    def __init__(self, document: int) -> None:
        super().__init__(document)
        self.document = document


class HandleMessage:
    def __init__(
        self, inbox: documents.Inbox, fetcher: Fetcher, packets: documents.Packets, notifier: documents.Notifier
    ) -> None:
        self._app: Penstock = inbox.app
        self._store: BlobStore = inbox.store
        self._fetcher = fetcher
        self._inbox = inbox
        self._packets = packets
        self._intake: documents.Intake = packets.intake
        self._notifier = notifier
        self._buckets: dict[tuple[str, str | None, str], Any] = {}  # each has connections of its own

    async def take_message(self, ctx: Context, message: int) -> dict[str, Any] | None:
        """Create the document, packet or memo of a message, once."""
        row = await self._app.database.pool.repeat(documents.load_message, message=message)
        if row is None or row["state"] == "taken" or row["job_id"] != ctx.job.id:  # a newer content has its own job
            return None
        chosen = self._settings_of(row)
        ctx.enter("parse")
        payload = json.loads(row["payload"])
        if chosen.makes == "memo":
            return await self._take_memo(ctx, row, payload)
        most = self._app.settings.packet.documents
        manifest = documents.read_manifest(payload, chosen, row["message_id"], most=most)
        collection = await documents.ensure_collection(self._app, chosen.collection, tenant=row["tenant"])
        checked = self._check(row, chosen, manifest, collection.id)
        if chosen.makes == "packet":
            return await self._take_packet(ctx, row, chosen, manifest, checked)
        return await self._take_document(ctx, row, chosen, manifest, checked)

    def _settings_of(self, row: Record) -> SourceSettings:
        if row["source"] == documents.FROM_API:
            return documents.api_settings(json.loads(row["payload"]), row["tenant"])
        if row["source"] not in self._app.settings.sources:
            raise BadMessage(
                f"Source {row['source']} is not in the settings of this worker: add [sources.{row['source']}], then run "
                f"`penstock inbox retry {row['id']}`."
            )
        return self._inbox.source(row["source"])

    def _check(
        self, row: Record, chosen: SourceSettings, manifest: documents.Manifest, collection: int
    ) -> CheckedUpload:
        upload = documents.Upload(
            collection=chosen.collection,
            name=manifest.name,
            content=_nothing(),
            uploaded_by=f"source {row['source']}" if row["source"] != documents.FROM_API else manifest.uploaded_by,
            metadata=manifest.metadata,
            replace=chosen.replaces or row["number"] > 1,
        )
        return check_upload(upload, row["tenant"], collection, served=True)

    # -- a document -----------------------------------------------------------------------------------------------------

    async def _take_document(
        self, ctx: Context, row: Record, chosen: SourceSettings, manifest: documents.Manifest, checked: CheckedUpload
    ) -> dict[str, Any]:
        stored = await self._fetch(ctx, row, chosen, manifest.documents[0], 0)
        if row["number"] == 1:
            checked = replace(checked, number=row["id"])
        unneeded: Sequence[str] = ()
        try:
            async with ctx.finish({"document": row["id"]}) as tx:
                done = await self._intake.write(tx, checked, stored)
                await self._end(tx, row, done.accepted.id)
                unneeded = [] if done.key == stored.key else [stored.key]
        except Outrun as outrun:
            return await self._stand_back(ctx, row, outrun.document)
        except NameTaken as error:
            raise BadMessage(f"{error} Or set replace = true for source {row['source']}.") from None
        await self._settle(unneeded)
        return {"document": done.accepted.id}

    async def _end(self, tx: Any, row: Record, document: int) -> None:
        """After the document is written, and so locked: of two messages for one name the later one is what stays."""
        if await documents.is_outrun(tx, document, row["source"], row["job_id"]):
            raise Outrun(document)
        await self._note_taken(tx, row, document)

    async def _stand_back(self, ctx: Context, row: Record, document: int) -> dict[str, Any]:
        """Nothing of it was written; the collector finds its bytes."""
        async with ctx.finish({"document": document}) as tx:
            await self._note_taken(tx, row, document)
        return {"document": document}

    async def _note_taken(self, tx: Any, row: Record, document: int | None) -> None:
        if not await documents.mark_taken(tx, row["id"], row["number"], document):
            raise BadMessage(f"Message {row['id']} came with other content meanwhile, which has a job of its own.")

    async def _settle(self, unneeded: Sequence[str]) -> None:
        for key in unneeded:
            await self._store.remove(key)
        self._notifier.notify()

    # -- a packet -------------------------------------------------------------------------------------------------------

    async def _take_packet(
        self, ctx: Context, row: Record, chosen: SourceSettings, manifest: documents.Manifest, checked: CheckedUpload
    ) -> dict[str, Any]:
        require_all = manifest.require_all
        if require_all is None:
            require_all = self._app.settings.packet.require_all
        sourced = await self._gather(ctx, row, chosen, manifest.documents)
        missing = [f"{each.name} ({each.reason.rstrip('.')})" for each in sourced if each.stored is None]
        if missing and require_all:  # the message can be retried
            raise BadMessage(
                f"The packet must have all of its documents (require_all), but lacks {'; '.join(missing[:5])}."
            )
        checked = replace(checked, number=row["id"]) if row["number"] == 1 else checked
        prepared = await self._packets.prepare(checked, sourced, require_all=require_all)
        unneeded: Sequence[str] = ()
        try:
            async with ctx.finish({"packet": row["id"]}) as tx:
                done = await self._packets.write(tx, prepared)
                await self._end(tx, row, done.accepted.id)
                unneeded = done.unneeded
        except Outrun as outrun:
            return await self._stand_back(ctx, row, outrun.document)
        except NameTaken as error:
            raise BadMessage(f"{error} Or set replace = true for source {row['source']}.") from None
        await self._settle(unneeded)
        return {"packet": done.accepted.id}

    async def _gather(
        self, ctx: Context, row: Record, chosen: SourceSettings, references: Sequence[documents.Reference]
    ) -> list[documents.PacketFile]:
        """The bytes of all documents, some at a time; a document that cannot be fetched has the reason instead."""
        turns = asyncio.Semaphore(self._app.settings.packet.fetch_at_once)

        async def fetch(place: int, reference: documents.Reference) -> documents.PacketFile:
            async with turns:
                try:
                    return documents.PacketFile(reference.name, await self._fetch(ctx, row, chosen, reference, place))
                except Permanent as error:
                    return documents.PacketFile(reference.name, None, str(error))

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fetch(*each)) for each in enumerate(references)]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # its class decides whether the job is retried
        return [task.result() for task in tasks]

    # -- a message of a conversation ------------------------------------------------------------------------------------

    async def _take_memo(self, ctx: Context, row: Record, payload: dict[str, Any]) -> dict[str, Any]:
        """It has its place in its stream when the message ends; memos are made of it with the others there."""
        if reason := payload.get(documents.POISON):
            raise BadMessage(str(reason))
        try:
            stream, message = read_payload(payload, row["message_id"], row["source"])
            async with ctx.finish({"stream": stream}) as tx:
                await post(tx, stream, [message], tenant=row["tenant"], most=self._app.settings.memos.waiting)
                await self._note_taken(tx, row, None)
        except Refused as error:
            raise BadMessage(str(error)) from None
        return {"stream": stream}

    # -- bytes ----------------------------------------------------------------------------------------------------------

    async def _fetch(
        self, ctx: Context, row: Record, chosen: SourceSettings, reference: documents.Reference, place: int
    ) -> StoredBlob:
        """The bytes of one document in our store; the digest says where they are after a crash."""
        if reference.digest:
            return await self._find_bytes(row["id"], reference)
        if reference.content:
            ctx.enter("fetch")
            return await self._store.write(_decoded(reference), most=self._app.settings.limits.bytes)

        async def fetch() -> dict[str, Any]:
            stored = await self._fetch_outside(chosen, reference)
            return {"key": stored.key, "digest": stored.digest.hex(), "size": stored.size}

        kept = await ctx.step(f"fetch {place + 1}", fetch)
        stored = StoredBlob(kept["key"], bytes.fromhex(kept["digest"]), kept["size"])
        if await self._store.size(stored.key) == stored.size:
            return stored
        return await self._fetch_outside(chosen, reference)  # kept for so long that its bytes were collected

    async def _find_bytes(self, message: int, reference: documents.Reference) -> StoredBlob:
        digest = bytes.fromhex(reference.digest)
        stored = await self._app.database.pool.repeat(documents.bytes_of, message=message, digest=digest)
        if stored is None:
            raise BadMessage(
                f"The bytes of {reference.name} that came with the message are gone: let the source send it again."
            )
        return stored

    async def _fetch_outside(self, chosen: SourceSettings, reference: documents.Reference) -> StoredBlob:
        most = self._app.settings.limits.bytes
        try:
            if reference.url:
                async with self._fetcher.open(reference.url, most=most) as response:
                    return await self._store.write(response.pieces(), most=most)
            return await self._store.write(self._bucket(chosen).read(reference.blob), most=most)
        except NotFound as error:
            raise BadMessage(str(error)) from None
        except BodyTooLarge as error:
            raise BadMessage(f"{reference.name} is too large: {error}") from None

    def _bucket(self, chosen: SourceSettings) -> Any:
        from penstock.blobs import open_bucket

        url = chosen.url.get_secret_value() if chosen.type == "bucket" and chosen.url else chosen.blobs_url
        if not url:
            raise BadMessage(
                "The message names a document by its key, and the source has no blobs_url: set it, then retry the message."
            )
        own = chosen.type == "bucket"
        endpoint, options = (chosen.endpoint, chosen.options) if own else (chosen.blobs_endpoint, chosen.blobs_options)
        secret = options.get_secret_value() if options else ""  # two sources may use one bucket with other credentials
        if (url, endpoint, secret) not in self._buckets:
            self._buckets[url, endpoint, secret] = open_bucket(url, endpoint, options)
        return self._buckets[url, endpoint, secret]


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


async def _decoded(reference: documents.Reference) -> AsyncIterator[bytes]:
    text = "".join(reference.content.split())
    try:
        whole = await asyncio.to_thread(base64.b64decode, text, validate=True)
    except (binascii.Error, ValueError):
        raise BadMessage(f"The content of {reference.name} is not base64: correct the sender.") from None
    for start in range(0, len(whole), PIECE):
        yield whole[start : start + PIECE]
