"""Packets as people see them: their documents with where they stand, their parts; and those that are still messages, because
their documents are not fetched yet, or could not be. The SQL is in packets.sql.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.database import Session, statements
from penstock.documents.packet import FROM_API

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document of a packet: where it stands in the consolidated PDF, or why it does not."""

    place: int
    name: str
    document: int | None
    status: str  # ready, queued, failed, deleted; missing: its bytes could not be had
    media_type: str | None
    first_page: int | None
    pages: int
    gaps: list[dict[str, Any]]
    reason: str


@dataclass(frozen=True, slots=True)
class ShownPart:
    """Pages of a packet that belong together."""

    label: str
    first_page: int
    last_page: int
    confidence: float


@dataclass(frozen=True, slots=True)
class ShownPacket:
    """What a packet has beyond a document."""

    id: int
    source: str | None
    message_id: str | None
    require_all: bool
    merged: bool
    documents: list[ShownDocument] = field(default_factory=list)
    parts: list[ShownPart] = field(default_factory=list)


async def show_packets(session: Session, ids: Sequence[int], *, tenant: str = "default") -> dict[int, ShownPacket]:
    """Those of these documents that are packets, by number."""
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
    """Their numbers, in order."""
    rows = await sql.list_packets(session, tenant=tenant, collection=collection, after=after, most=most)
    return [row["id"] for row in rows]


# -- messages -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitingPacket:
    """A message that will become a packet of the same number."""

    id: int
    collection: str
    name: str
    status: str  # queued or failed
    error: dict[str, Any] | None
    job: int
    received_at: datetime


async def find_waiting(session: Session, number: int, *, tenant: str = "default") -> WaitingPacket | None:
    """None if there is no such message, or it was taken: then the packet is there."""
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
