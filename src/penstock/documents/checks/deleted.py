"""A document that is deleted waits for its removal, or has a receipt; neither waits for long.

One that has neither would stay for ever: the repair puts it in line. What waits for hours although it is due is reported: the
job that removes has died, or cannot reach the blob store. The SQL is in deleted.sql.
"""

from collections.abc import Sequence
from functools import partial

from asyncpg import Record

from penstock.database import Database, statements
from penstock.documents.checks.finding import Cursor, Found, Repair

sql = statements(__file__)

PAGE = 500
LATE_HOURS = 2
SAYS = {
    "lost": "is deleted, and neither waits for its removal nor has a receipt",
    "late": "is deleted, and should have been removed {hours} hours ago",
    "unverified": "was removed more than {hours} hours ago, and nobody could verify it",
}


class Deleted:
    """Deleted is removed, or will be."""

    name = "deleted"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        at, document = after or ("-infinity", 0)
        rows = await self._database.pool.repeat(partial(sql.page, at=at, document=document, most=PAGE))
        last = [rows[-1]["at"], rows[-1]["id"]] if len(rows) == PAGE else None
        return [row["id"] for row in rows], last

    async def look(self, subjects: Sequence[int]) -> list[Found]:
        rows = await self._database.pool.repeat(partial(sql.look, documents=list(subjects), hours=LATE_HOURS))
        return [_tell(row) for row in rows]

    async def repair(self, found: Found) -> Repair | None:
        async with self._database.pool.transaction() as tx:
            queued = await sql.put_in_line.value(tx, document=found.subject)
        return None if queued is None else Repair("It waits for its removal now.")


def _tell(row: Record) -> Found:
    said = SAYS[row["wrong"]].format(hours=LATE_HOURS)
    sentence = f"Document {row['id']} ({row['name']}) {said}."
    return Found(row["id"], sentence, "penstock schedule run tidy-documents", row["id"], row["tenant"])
