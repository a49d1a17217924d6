"""The versions of a document: which there were, what became of each, and where the bytes of one are.

One version at most is live: search, the text, the pages and the chunks are of that one. The newest may be another: it is
being prepared, or it has failed. Bytes of old versions stay as long as the document. The SQL is in versions.sql.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from penstock.database import statements
from penstock.documents.catalog import LARGEST, show_document
from penstock.engine import Penstock
from penstock.errors import NotFound

sql = statements(__file__)

NUMBER_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Version:
    """One version. `live`: search sees it; `dead`: nobody will see it again."""

    number: int  # from 1 on
    state: Literal["live", "preparing", "failed", "dead"]
    digest: bytes
    size: int
    accepted_at: datetime
    prepared_at: datetime | None

    def answer(self) -> dict[str, Any]:
        """For JSON."""
        prepared = self.prepared_at and self.prepared_at.isoformat()
        return {
            "number": self.number,
            "state": self.state,
            "digest": self.digest.hex(),
            "size": self.size,
            "accepted_at": self.accepted_at.isoformat(),
            "prepared_at": prepared,
        }


@dataclass(frozen=True, slots=True)
class VersionBlob:
    """The bytes of one version, for a download."""

    name: str  # of the document
    number: int
    key: str  # in the blob store
    digest: bytes
    size: int
    media_type: str | None  # as its content says; known of the live version only


async def list_versions(
    app: Penstock, document: int, *, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[Version]:
    """All versions that there were, oldest first."""
    await show_document(app, document, tenant=tenant)
    if not 0 <= after <= NUMBER_MAX:
        return []
    rows = await app.database.pool.repeat(
        lambda session: sql.list_versions(session, document=document, tenant=tenant, after=after, most=most)
    )
    return [Version(**row) for row in rows]


async def blob_of(app: Penstock, document: int, version: int | None = None, *, tenant: str = "default") -> VersionBlob:
    """The bytes of one version, or of the newest: who has sent something gets back what was sent, also when it failed."""
    if not 0 < document <= LARGEST:
        raise NotFound(f"There is no document {document}.")
    wanted = version if version is None or 0 < version <= NUMBER_MAX else 0  # 0 is the number of none
    row = await app.database.pool.repeat(
        lambda session: sql.blob_of.first(session, document=document, version=wanted, tenant=tenant)
    )
    if row is None:
        raise NotFound(f"There is no document {document}.")
    said = f"Document {document} ({row['name']})"
    if row["state"] == "deleted":
        raise NotFound(f"{said} is deleted.")
    if row["number"] is None:
        there = "only version 1" if row["newest"] == 1 else f"versions 1 to {row['newest']}"
        raise NotFound(f"{said} has no version {version} to download: it has {there}.")
    return VersionBlob(row["name"], row["number"], row["key"], row["digest"], row["size"], row["media_type"])
