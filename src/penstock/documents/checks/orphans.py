"""What belonged to a deleted document is deleted, too: a process that dies between two pages of a deletion leaves members.

Those of the last minutes are reconcile.py's, which comes every minute; a deletion that is under way is no finding. Parents are
found by skipping from one to the next in the index. The SQL is in orphans.sql.
"""

from collections.abc import Sequence
from functools import partial

from penstock.database import Database, statements
from penstock.documents.checks.finding import Cursor, Found, Repair
from penstock.documents.deletion import delete_page

sql = statements(__file__)

PAGE = 500
MEMBERS = 1000  # that are looked at, of one page of parents


class Orphans:
    """Nothing outlives what it was inside of."""

    name = "orphans"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(partial(sql.page, after=after[0] if after else 0, most=PAGE))
        subjects = [row["parent_id"] for row in rows]
        return subjects, [subjects[-1]] if len(subjects) == PAGE else None

    async def look(self, subjects: Sequence[int]) -> list[Found]:
        rows = await self._database.pool.repeat(partial(sql.look, parents=list(subjects), most=MEMBERS))
        return [
            Found(
                row["parent_id"],
                f"Document {row['id']} ({row['name']}) is there, and document {row['parent_id']}, in which it was, is deleted.",
                f"penstock delete {row['id']}",
                row["id"],
                row["tenant"],
            )
            for row in rows
        ]

    async def repair(self, found: Found) -> Repair | None:
        if found.document is None:
            return None
        await delete_page(self._database, [found.document], "what it belonged to was deleted")
        return Repair("It was deleted.")
