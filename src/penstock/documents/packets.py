"""Packets: documents that belong together, kept as one document with members.

A packet is a document. Its bytes are the list of its documents until those are merged, and the consolidated PDF from then on;
the documents in it are its members, with the bytes that came. One job prepares all of them, and they become ready, or fail,
in one transaction. The same list again changes nothing; another list is the next version. Before its documents are fetched, a
packet is a message in the inbox (`WaitingPacket`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any

import asyncpg
from asyncpg import Record
from pydantic import Field

from penstock.blobs import BlobStore, StoredBlob, unknown_keys
from penstock.database import Session, statements
from penstock.documents.deletion.delete import delete_in
from penstock.documents.inbox import FROM_API
from penstock.documents.ingest.attachments import inherit_metadata, insert_waiting
from penstock.documents.ingest.intake import BlobRow, Intake, keep_blobs
from penstock.documents.ingest.upload import Accepted, CheckedUpload, ConcurrentChange, accepted, count_accepted
from penstock.documents.lifecycle import add_version, redrive_failed
from penstock.documents.names import PREPARE_PACKET, member_name, numbered
from penstock.engine import Penstock
from penstock.errors import BadValue, CallTimedOut, ConnectionLost, QueueFull, Refused
from penstock.settings import SourceSettings
from penstock.text import storable

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class PacketFile:
    """A document of a packet: its bytes, or why they could not be fetched."""

    name: str
    stored: StoredBlob | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PacketDraft:
    """A packet whose bytes are all stored."""

    checked: CheckedUpload
    files: Sequence[PacketFile]
    listing: StoredBlob  # its list of documents, as bytes
    require_all: bool


@dataclass(frozen=True, slots=True)
class PacketResult:
    """The answer, and the keys of bytes that were there already."""

    accepted: Accepted
    unneeded: Sequence[str]


@dataclass(frozen=True, slots=True)
class PacketDocument:
    """A document of a packet while it is prepared."""

    place: int
    name: str
    member_id: int | None
    member_version: int | None
    first_page: int | None
    pages: int
    media_type: str | None
    gaps: list[dict[str, Any]]
    reason: str
    blob_key: str | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Packet:
    """A version of a packet while it is prepared."""

    document: int
    version: int
    require_all: bool
    merged: bool
    documents: Sequence[PacketDocument]


@dataclass(frozen=True, slots=True)
class MergedDocument:
    place: int
    first_page: int | None
    pages: int
    reason: str = ""
    gaps: Sequence[Mapping[str, Any]] = ()
    media_type: str | None = None


class Packets:
    """The intake of packets. One for each process."""

    def __init__(self, app: Penstock, store: BlobStore, intake: Intake) -> None:
        self.app = app
        self.store = store
        self.intake = intake

    async def prepare(
        self, checked: CheckedUpload, files: Sequence[PacketFile], *, require_all: bool | None = None
    ) -> PacketDraft:
        """Store the list of its documents, as the last step before the transaction."""
        if not files:
            raise BadValue("A packet needs at least one document.")
        most = self.app.settings.packet.documents
        if len(files) > most:
            raise BadValue(
                f"The packet has {len(files):,} documents, more than {most:,} (packet.documents): split it, or raise the limit."
            )
        listing = [
            {"name": each.name, "digest": each.stored.digest.hex(), "size": each.stored.size}
            if each.stored
            else {"name": each.name, "reason": each.reason}
            for each in files
        ]
        text = json.dumps({"packet": checked.name, "documents": listing}, indent=1, sort_keys=True)
        stored = await self.store.write(_one_piece(text.encode()), most=2**62)
        chosen = self.app.settings.packet.require_all if require_all is None else require_all
        return PacketDraft(replace(checked, kind=PREPARE_PACKET), files, stored, chosen)

    async def accept(
        self, checked: CheckedUpload, files: Sequence[PacketFile], *, require_all: bool | None = None
    ) -> Accepted:
        """Accept a packet whose bytes are stored, in one transaction; again after a concurrent change of its document."""
        draft = await self.prepare(checked, files, require_all=require_all)
        while True:
            done: PacketResult | None = None
            try:
                async with self.app.database.pool.transaction() as tx:
                    done = await self.write(tx, draft)
            except (ConnectionLost, CallTimedOut):
                if done is None or not await self.intake.is_there(done.accepted):
                    raise
            except (Refused, QueueFull):
                await self._remove(draft)
                raise
            except (ConcurrentChange, asyncpg.DeadlockDetectedError):
                continue
            for key in done.unneeded:
                await asyncio.shield(self.store.remove(key))
            count_accepted(done.accepted)
            return done.accepted

    async def write(self, tx: Session, draft: PacketDraft) -> PacketResult:
        """Write the packet in the caller's transaction. Raises ConcurrentChange: begin a new transaction then."""
        checked, listing = draft.checked, draft.listing
        same = await sql.same_packet.first(
            tx, tenant=checked.tenant, collection=checked.collection_id, name=checked.name, digest=listing.digest
        )
        if same is not None:
            return await self._leave(tx, draft, same)
        done = await self.intake.write(tx, checked, listing)
        made = done.accepted
        await sql.add_packet.run(
            tx,
            version=done.version,
            document=made.id,
            tenant=checked.tenant,
            digest=listing.digest,
            require_all=draft.require_all,
        )
        stored = [each.stored for each in draft.files if each.stored]
        kept = await keep_blobs(tx, stored, tenant=checked.tenant)
        names = _member_names(checked.name, draft.files)
        members = await self._add_members(tx, made, names, draft.files, kept)
        await sql.add_packet_documents.run(
            tx,
            version=done.version,
            places=list(range(len(names))),
            names=[storable(each.name, " ") for each in draft.files],
            members=[members[name][0] if name in members else None for name in names],
            versions=[members[name][1] if name in members else None for name in names],
            reasons=[storable(each.reason, " ") for each in draft.files],
        )
        used = {done.key, *(blob.key for blob in kept.values())}
        return PacketResult(made, [each.key for each in (listing, *stored) if each.key not in used])

    async def _add_members(
        self,
        tx: Session,
        made: Accepted,
        names: list[str],
        files: Sequence[PacketFile],
        kept: Mapping[bytes, BlobRow],
    ) -> dict[str, tuple[int, int]]:
        """Document and version of each name that has bytes; those of an earlier version of the packet get another version."""
        blobs = {
            name: kept[each.stored.digest].id
            for name, each in zip(names, files, strict=True)
            if each.stored is not None
        }
        present = await sql.lock_members(tx, parent=made.id, names=list(blobs))
        found: dict[str, tuple[int, int]] = {}
        for row in present:
            await add_version(tx, row["id"], row["new_version"], job=made.job, blob=blobs[row["name"]])
            found[row["name"]] = (row["id"], row["new_version"])
        new = {name: blob for name, blob in blobs.items() if name not in found}
        found |= await insert_waiting(tx, made.id, made.job, new)
        await inherit_metadata(tx, made.id)
        return found

    async def _leave(self, tx: Session, draft: PacketDraft, same: Record) -> PacketResult:
        """The same packet again: nothing to do, but for one that failed, which gets another chance."""
        job, status, message = same["job_id"], same["state"], "unchanged: the same packet is there already"
        if status == "failed":
            again = await redrive_failed(tx, self.app, same["id"])
            if again is None:
                raise ConcurrentChange
            job, status, message = again, "queued", f"{message}, and is retried"
        there = accepted(draft.checked, draft.listing, same["id"], same["number"], job)
        there = replace(there, status=status, created=False, unchanged=True, message=message)
        stored = [each.stored for each in draft.files if each.stored]
        fresh = [each.key for each in stored if each.key]
        # Not all of them: others may have come with a message, or be another document's.
        return PacketResult(there, [draft.listing.key, *await unknown_keys(tx, fresh)])

    async def _remove(self, draft: PacketDraft) -> None:
        for each in (draft.listing, *(file.stored for file in draft.files)):
            if each is not None:
                await asyncio.shield(self.store.remove(each.key))


# -- while it is prepared -----------------------------------------------------------------------------------------------


async def load_packet(session: Session, document: int, version: int) -> Packet | None:
    """None if this version need not be prepared: a newer one is there, or the packet is deleted."""
    row = await sql.load_packet.first(session, document=document, version=version)
    if row is None:
        return None
    rows = await sql.load_packet_documents(session, version=version)
    return Packet(**row, documents=[PacketDocument(**{**each, "gaps": json.loads(each["gaps"])}) for each in rows])


async def keep_merged(
    tx: Session, packet: Packet, tenant: str, stored: StoredBlob, merged: Sequence[MergedDocument]
) -> str:
    """The consolidated PDF is the packet's from the commit on; the key under which it is kept."""
    kept = (await keep_blobs(tx, [stored], tenant=tenant))[stored.digest]
    await sql.keep_merged.run(
        tx,
        version=packet.version,
        blob=kept.id,
        places=[each.place for each in merged],
        firsts=[each.first_page for each in merged],
        pages=[each.pages for each in merged],
        media_types=[each.media_type for each in merged],
        reasons=[storable(each.reason, " ") for each in merged],
        gaps=[
            json.dumps([{**gap, "reason": storable(str(gap["reason"]), " ")} for gap in each.gaps]) for each in merged
        ],
    )
    return kept.key


async def end_packet(
    tx: Session, packet: Packet, parts: Sequence[tuple[int, int, str, float]], missing: Sequence[PacketDocument]
) -> None:
    """In the transaction that publishes it: its parts, members that could not be read, and those that left it."""
    await sql.add_parts.run(
        tx,
        version=packet.version,
        firsts=[part[0] for part in parts],
        lasts=[part[1] for part in parts],
        labels=[part[2] for part in parts],
        confidences=[part[3] for part in parts],
    )
    await sql.fail_members.run(
        tx,
        members=[each.member_id for each in missing],
        versions=[each.member_version for each in missing],
        reasons=[each.reason for each in missing],
    )
    gone = [row["id"] for row in await sql.gone_members(tx, document=packet.document, version=packet.version)]
    if gone:
        await delete_in(tx, gone, "not in the packet any more")


def api_settings(payload: Mapping[str, Any], tenant: str) -> SourceSettings:
    """Settings for packets that came by HTTP; their fields have the default names."""
    return SourceSettings(
        type="webhook",
        makes="packet",
        collection=str(payload.get("collection", "")),
        tenant=tenant,
        replace=bool(payload.get("replace")),
    )


def _member_names(packet: str, files: Sequence[PacketFile]) -> list[str]:
    """Each once, in the order of the packet: two documents may have come with one name."""
    names: list[str] = []
    for each in files:
        wanted = name = member_name(packet, each.name)
        number = 1
        while name in names:
            number += 1
            name = numbered(wanted, number)
        names.append(name)
    return names


async def _one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content


# -- as the API shows them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document of a packet."""

    place: Annotated[int, Field(description="From 0 on.")]
    name: str
    document: Annotated[int | None, Field(description="Its id; null: its bytes could not be fetched.")]
    status: str  # ready, queued, failed, deleted; missing: its bytes could not be fetched
    media_type: str | None
    first_page: Annotated[int | None, Field(description="In the consolidated PDF; null: it is not in it.")]
    pages: int
    gaps: list[dict[str, Any]]
    reason: Annotated[str, Field(description="Why it is not in the consolidated PDF.")]


@dataclass(frozen=True, slots=True)
class ShownPart:
    """Pages that belong together: the cover sheet, part A, part B, the rest."""

    label: str
    first_page: int
    last_page: int
    confidence: Annotated[float, Field(description="From 0 to 1.")]


@dataclass(frozen=True, slots=True)
class ShownPacket:
    """The fields of a packet that other documents do not have."""

    id: int
    source: Annotated[str | None, Field(description="The source that it came from; null: an upload.")] = None
    message_id: str | None = None
    require_all: bool = False
    merged: Annotated[bool, Field(description="Whether there is a consolidated PDF.")] = False
    documents: list[ShownDocument] = field(default_factory=list)
    parts: list[ShownPart] = field(default_factory=list)


async def show_packets(session: Session, ids: Sequence[int], *, tenant: str = "default") -> dict[int, ShownPacket]:
    """The packets among these documents, by id."""
    rows = await sql.show_packets(session, ids=list(ids), tenant=tenant)
    versions = {row["version_id"]: row["id"] for row in rows}
    found = {
        row["id"]: ShownPacket(
            row["id"],
            None if row["source"] == FROM_API else row["source"],
            None if row["source"] == FROM_API else row["message_id"],
            row["require_all"],
            row["merged_at"] is not None,
        )
        for row in rows
    }
    for row in await sql.show_packet_documents(session, versions=list(versions)):
        shown = {name: value for name, value in row.items() if name != "version_id"}
        found[versions[row["version_id"]]].documents.append(ShownDocument(**{**shown, "gaps": json.loads(row["gaps"])}))
    for row in await sql.show_parts(session, versions=list(versions)):
        part = ShownPart(row["label"], row["first_page"], row["last_page"], round(row["confidence"], 3))
        found[versions[row["version_id"]]].parts.append(part)
    return found


async def list_packets(
    session: Session, *, collection: int | None = None, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[int]:
    """The ids of packets, in order."""
    rows = await sql.list_packets(session, tenant=tenant, collection=collection, after=after, most=most)
    return [row["id"] for row in rows]


# -- messages -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitingPacket:
    """A message that will become a packet of the same id."""

    id: int
    collection: str
    name: str
    status: str  # queued or failed
    error: dict[str, Any] | None
    job: int
    received_at: datetime


async def find_waiting(session: Session, number: int, *, tenant: str = "default") -> WaitingPacket | None:
    """A packet that is still a message; None if it does not exist, or was taken and is a packet."""
    row = await sql.waiting_message.first(session, id=number, tenant=tenant)
    if row is None:
        return None
    payload = json.loads(row["payload"])
    return WaitingPacket(
        row["id"],
        str(payload.get("collection", "")),
        str(payload.get("name", row["message_id"])),
        "failed" if row["state"] == "failed" else "queued",
        None if row["error"] is None else json.loads(row["error"]),
        row["job_id"],
        row["received_at"],
    )
