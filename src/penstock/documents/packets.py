"""Packets that are still messages: their documents are not fetched yet, or could not be."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.database import Session
from penstock.documents.packet import sql


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
