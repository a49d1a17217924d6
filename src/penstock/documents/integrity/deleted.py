"""Deletions are complete: deleted documents, their members, and versions that search will not see again.

A deleted document is queued for removal, or has a receipt; the repair of one that has neither queues it. One that waits for
hours although it is due is reported: the job that removes has died, or cannot reach the blob store. A process that dies
between two pages of a deletion leaves members, which are deleted. A version that is neither live nor the newest is given up,
so that its rows and bytes are cleared.
"""

from collections.abc import Sequence

from asyncpg import Record

from penstock.database import Database, statements
from penstock.documents.deletion.delete import delete_page
from penstock.documents.integrity.finding import Cursor, IntegrityFinding, Repair, cut_page

sql = statements(__file__)

PAGE = 500
MEMBERS = 1000  # of one page of parents
LATE_HOURS = 2
SAYS = {
    "lost": "is deleted, but neither waits for its removal nor has a receipt",
    "late": "is deleted, but its removal is {hours} hours late",
    "unverified": "was removed more than {hours} hours ago, but the removal could not be verified",
}


class DeletedCheck:
    """Deleted documents are removed, or will be."""

    name = "deleted"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        at, document = after or ("-infinity", 0)
        rows = await self._database.pool.repeat(sql.deleted_page, at=at, document=document, most=PAGE)
        last = [rows[-1]["at"], rows[-1]["id"]] if len(rows) == PAGE else None
        return [row["id"] for row in rows], last

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        rows = await self._database.pool.repeat(sql.deleted_found, documents=list(subjects), hours=LATE_HOURS)
        return [_tell(row) for row in rows]

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        async with self._database.pool.transaction() as tx:
            queued = await sql.put_in_line.value(tx, document=found.subject)
        return None if queued is None else Repair("It waits for its removal now.")


def _tell(row: Record) -> IntegrityFinding:
    said = SAYS[row["wrong"]].format(hours=LATE_HOURS)
    sentence = f"Document {row['id']} ({row['name']}) {said}."
    return IntegrityFinding(row["id"], sentence, "penstock schedules run tidy-documents", row["id"], row["tenant"])


class OrphanCheck:
    """Members of deleted documents are deleted."""

    name = "orphans"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(sql.orphans_page, after=after[0] if after else 0, most=PAGE)
        return cut_page(rows, PAGE, subject="parent_id")

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        rows = await self._database.pool.repeat(sql.orphans_found, parents=list(subjects), most=MEMBERS)
        return [
            IntegrityFinding(
                row["parent_id"],
                f"Document {row['id']} ({row['name']}) still exists, but its parent, document {row['parent_id']}, is deleted.",
                f"penstock delete {row['id']}",
                row["id"],
                row["tenant"],
            )
            for row in rows
        ]

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        if found.document is None:
            return None
        await delete_page(self._database, [found.document], "what it belonged to was deleted")
        return Repair("It was deleted.")


class VersionCheck:
    """Every version is live, the newest, or dead."""

    name = "versions"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(sql.versions_page, after=after[0] if after else 0, most=PAGE)
        return cut_page(rows, PAGE)

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        rows = await self._database.pool.repeat(sql.versions_found, versions=list(subjects))
        return [
            IntegrityFinding(
                row["id"],
                f"Version {row['number']} of document {row['document_id']} ({row['name']}) is neither live nor the newest, and "
                "was not given up.",
                f"penstock why {row['document_id']}",
                row["document_id"],
                row["tenant"],
            )
            for row in rows
        ]

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        async with self._database.pool.transaction() as tx:
            gone = await sql.give_up.value(tx, version=found.subject)
        return None if gone is None else Repair("It was given up, and will be cleared.")
