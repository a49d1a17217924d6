"""Versions that nobody will see, and that nobody has called dead: their rows and their bytes would stay for ever.

A version is live, or the newest of a document that is not deleted, or dead. The repair calls it dead; cleaning.py does the
rest. The SQL is in versions.sql.
"""

from collections.abc import Sequence
from functools import partial

from penstock.database import Database, statements
from penstock.documents.checks.finding import Cursor, Found, Repair

sql = statements(__file__)

PAGE = 500


class Versions:
    """Every version is live, the newest, or dead."""

    name = "versions"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(partial(sql.page, after=after[0] if after else 0, most=PAGE))
        subjects = [row["id"] for row in rows]
        return subjects, [subjects[-1]] if len(subjects) == PAGE else None

    async def look(self, subjects: Sequence[int]) -> list[Found]:
        rows = await self._database.pool.repeat(partial(sql.look, versions=list(subjects)))
        return [
            Found(
                row["id"],
                f"Version {row['number']} of document {row['document_id']} ({row['name']}) is neither live nor the newest, and "
                "was not given up.",
                f"penstock why {row['document_id']}",
                row["document_id"],
                row["tenant"],
            )
            for row in rows
        ]

    async def repair(self, found: Found) -> Repair | None:
        async with self._database.pool.transaction() as tx:
            gone = await sql.give_up.value(tx, version=found.subject)
        return None if gone is None else Repair("It was given up, and will be cleared.")
