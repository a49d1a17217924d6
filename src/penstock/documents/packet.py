"""Packets: documents that belong together, kept as one document with members.

A packet is a document. Its bytes are the list of what is in it until that is merged, and the consolidated PDF from then on; the
documents in it are its members, with the bytes that came. One job prepares all of them, and all follow it: they are ready, or
failed, in one transaction. The same list again changes nothing; another one is the next version. The SQL is in packet.sql.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
from asyncpg import Record

from penstock.blobs import Store, Stored
from penstock.database import Session, statements
from penstock.documents.changing import redrive_failed
from penstock.documents.changing import sql as changing_sql
from penstock.documents.deletion import delete_in
from penstock.documents.intake import Intake
from penstock.documents.keeping import Kept, keep_blobs
from penstock.documents.members import sql as members_sql
from penstock.documents.naming import member_name, numbered
from penstock.documents.upload import Accepted, count_accepted
from penstock.documents.wish import PREPARE_PACKET, Moved, Wish, accepted
from penstock.engine import Penstock
from penstock.engine.outcome import readable
from penstock.errors import BadValue, CallTimedOut, ConnectionLost, QueueFull, Refused
from penstock.settings.arriving import SourceSettings

sql = statements(__file__)

FROM_API = "_api"  # the source of packets that came by HTTP with references


@dataclass(frozen=True, slots=True)
class Sourced:
    """A document of a packet: its bytes, or why they could not be had."""

    name: str
    stored: Stored | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A packet whose bytes are all stored."""

    wish: Wish
    sourced: Sequence[Sourced]
    listing: Stored  # its list of documents, as bytes
    require_all: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What became of it, and the keys of bytes that were there already."""

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
class Merged:
    """What merging has made of one document."""

    place: int
    first_page: int | None
    pages: int
    reason: str = ""
    gaps: Sequence[Mapping[str, Any]] = ()
    media_type: str | None = None


class Packets:
    """Takes packets in. One for each process."""

    def __init__(self, app: Penstock, store: Store, intake: Intake) -> None:
        self.app = app
        self.store = store
        self.intake = intake

    async def prepare(self, wish: Wish, sourced: Sequence[Sourced], *, require_all: bool | None = None) -> Prepared:
        """Write down what is in it; the last thing before the transaction."""
        if not sourced:
            raise BadValue("A packet needs at least one document.")
        most = self.app.settings.packet.documents
        if len(sourced) > most:
            raise BadValue(f"The packet has {len(sourced):,} documents, and packet.documents allows {most:,}.")
        listing = [
            {"name": each.name, "digest": each.stored.digest.hex(), "size": each.stored.size}
            if each.stored
            else {"name": each.name, "reason": each.reason}
            for each in sourced
        ]
        text = json.dumps({"packet": wish.name, "documents": listing}, indent=1, sort_keys=True)
        stored = await self.store.write(_one_piece(text.encode()), most=2**62)
        chosen = self.app.settings.packet.require_all if require_all is None else require_all
        return Prepared(replace(wish, kind=PREPARE_PACKET), sourced, stored, chosen)

    async def accept(self, wish: Wish, sourced: Sequence[Sourced], *, require_all: bool | None = None) -> Accepted:
        """All of a packet whose bytes are here, in one transaction; again while a document changes under our hands."""
        prepared = await self.prepare(wish, sourced, require_all=require_all)
        while True:
            done: Written | None = None
            try:
                async with self.app.database.pool.transaction() as tx:
                    done = await self.write(tx, prepared)
            except (ConnectionLost, CallTimedOut):
                if done is None or not await self.intake.is_there(done.accepted):
                    raise
            except (Refused, QueueFull):
                await self._remove(prepared)
                raise
            except (Moved, asyncpg.DeadlockDetectedError):
                continue
            for key in done.unneeded:
                await asyncio.shield(self.store.remove(key))
            count_accepted(done.accepted)
            return done.accepted

    async def write(self, tx: Session, prepared: Prepared) -> Written:
        """In the caller's transaction. Raises Moved when somebody else was faster: begin a new one."""
        wish, listing = prepared.wish, prepared.listing
        same = await sql.same_packet.first(
            tx, tenant=wish.tenant, collection=wish.collection_id, name=wish.name, digest=listing.digest
        )
        if same is not None:
            return await self._leave(tx, prepared, same)
        done = await self.intake.write(tx, wish, listing)
        made = done.accepted
        await sql.add_packet.run(
            tx,
            version=done.version,
            document=made.id,
            tenant=wish.tenant,
            digest=listing.digest,
            require_all=prepared.require_all,
        )
        stored = [each.stored for each in prepared.sourced if each.stored]
        kept = await keep_blobs(tx, stored, tenant=wish.tenant)
        names = _member_names(wish.name, prepared.sourced)
        members = await self._add_members(tx, made, names, prepared.sourced, kept)
        await sql.add_packet_documents.run(
            tx,
            version=done.version,
            places=list(range(len(names))),
            names=[readable(each.name) for each in prepared.sourced],
            members=[members[name][0] if name in members else None for name in names],
            versions=[members[name][1] if name in members else None for name in names],
            reasons=[readable(each.reason) for each in prepared.sourced],
        )
        used = {done.key, *(blob.key for blob in kept.values())}
        return Written(made, [each.key for each in (listing, *stored) if each.key not in used])

    async def _add_members(
        self, tx: Session, made: Accepted, names: list[str], sourced: Sequence[Sourced], kept: Mapping[bytes, Kept]
    ) -> dict[str, tuple[int, int]]:
        """Document and version of each name that has bytes; those of an earlier version of the packet get another version."""
        blobs = {
            name: kept[each.stored.digest].id
            for name, each in zip(names, sourced, strict=True)
            if each.stored is not None
        }
        present = await sql.lock_members(tx, parent=made.id, names=list(blobs))
        found: dict[str, tuple[int, int]] = {}
        for row in present:
            await changing_sql.add_version.value(
                tx,
                document=row["id"],
                version=row["new_version"],
                job=made.job,
                blob=blobs[row["name"]],
                metadata="{}",
                uploaded_by="",
            )
            found[row["name"]] = (row["id"], row["new_version"])
        new = [name for name in blobs if name not in found]
        if new:
            ids = await members_sql.reserve(tx, count=len(new))
            await members_sql.insert_members(
                tx,
                parent=made.id,
                documents=[row["document"] for row in ids],
                versions=[row["version"] for row in ids],
                jobs=[made.job] * len(new),
                names=new,
                blobs=[blobs[name] for name in new],
            )
            found |= {name: (row["document"], row["version"]) for name, row in zip(new, ids, strict=True)}
        await members_sql.pass_on.run(tx, parent=made.id)
        return found

    async def _leave(self, tx: Session, prepared: Prepared, same: Record) -> Written:
        """The same packet again: nothing to do, but for one that failed, which gets another chance."""
        job, status, message = same["job_id"], same["state"], "unchanged: the same packet is there already"
        if status == "failed":
            again = await redrive_failed(tx, self.app, same["id"])
            if again is None:
                raise Moved
            job, status, message = again, "queued", f"{message}, and is tried again"
        there = accepted(prepared.wish, prepared.listing, same["id"], same["number"], job)
        there = replace(there, status=status, created=False, unchanged=True, message=message)
        stored = [each.stored for each in prepared.sourced if each.stored]
        fresh = [each.key for each in stored if each.key]
        return Written(there, [prepared.listing.key, *await self._unknown(tx, fresh)])

    async def _unknown(self, tx: Session, keys: list[str]) -> list[str]:
        """Those of these bytes that no row names: others may have come with a message, or be another document's."""
        from penstock.blobs.collector import sql as collector_sql

        return [row["key"] for row in await collector_sql.unknown_keys(tx, keys=keys)]

    async def _remove(self, prepared: Prepared) -> None:
        for each in (prepared.listing, *(sourced.stored for sourced in prepared.sourced)):
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


async def keep_merged(tx: Session, packet: Packet, tenant: str, stored: Stored, merged: Sequence[Merged]) -> str:
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
        reasons=[readable(each.reason) for each in merged],
        gaps=[json.dumps([{**gap, "reason": readable(str(gap["reason"]))} for gap in each.gaps]) for each in merged],
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
    """How a packet that came by HTTP is read; the names of its fields are the usual ones."""
    return SourceSettings(
        type="webhook",
        makes="packet",
        collection=str(payload.get("collection", "")),
        tenant=tenant,
        replace=bool(payload.get("replace")),
    )


def _member_names(packet: str, sourced: Sequence[Sourced]) -> list[str]:
    """Each once, in the order of the packet: two documents may have come with one name."""
    names: list[str] = []
    for each in sourced:
        wanted = name = member_name(packet, each.name)
        number = 1
        while name in names:
            number += 1
            name = numbered(wanted, number)
        names.append(name)
    return names


async def _one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content
