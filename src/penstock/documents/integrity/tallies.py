"""The counts of a collection equal those of its documents: documents, chunks and words that search sees, and deleted ones.

Counting and comparing is one statement, and so is the repair, which adds the difference as one more delta: a concurrent
change is seen in both or in neither, and nothing is locked. A large collection is counted in batches, and the result is used
only if nothing has changed meanwhile, since every change leaves a row.
"""

from collections.abc import Sequence
from typing import Any

from asyncpg import Record

from penstock.database import Database, statements
from penstock.documents.integrity.finding import Cursor, IntegrityFinding, Repair, cut_page

sql = statements(__file__)

PAGE = 500
DOCUMENTS = 50_000  # of the collections of a page, but for a single one that has more
LARGE = 100_000  # documents of a collection that is counted in batches: 200,000 at once took 0.7 s
WHAT = ("documents", "chunks", "words", "deleted")


class TallyCheck:
    """The counts of collections are right."""

    name = "tallies"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._walked: dict[int, Record] = {}  # of large collections: what they lack, and when that was so

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(sql.page, after=after[0] if after else 0, most=PAGE)
        return cut_page(rows, PAGE, weight="documents", most=DOCUMENTS)

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        sizes = await self._database.pool.repeat(sql.sizes, collections=list(subjects))
        large = [row["id"] for row in sizes if row["documents"] > LARGE]
        small = [subject for subject in subjects if subject not in large]
        rows = await self._database.pool.repeat(sql.compare, collections=small) if small else []
        for collection in large:
            if (row := await self._walk(collection)) is not None:
                self._walked[collection] = row
                rows.append(row)
        return [_tell(row) for row in rows]

    async def _walk(self, collection: int) -> Record | None:
        """What the counts of a large collection lack; None also when it was changed meanwhile."""
        mark: str = await self._database.pool.repeat(sql.mark.value, collection=collection)
        after = 0
        sums: dict[str, Any] = dict.fromkeys(WHAT, 0)
        while True:
            row = await self._database.pool.repeat(
                sql.count_batch.first, collection=collection, after=after, most=DOCUMENTS
            )
            if row is None or row["last"] is None:
                break
            after = row["last"]
            sums = {what: sums[what] + row[what] for what in WHAT}
        return await self._database.pool.repeat(sql.compare_walked.first, collection=collection, mark=mark, **sums)

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        walked = self._walked.get(found.subject)
        async with self._database.pool.transaction() as tx:
            if walked is None:
                row = await sql.correct.first(tx, collections=[found.subject])
            else:
                off = {what: walked[what] for what in WHAT}
                row = await sql.correct_walked.first(tx, collection=found.subject, mark=walked["mark"], **off)
        if row is None:
            return None  # it was right by then
        return Repair(
            f"The counts were changed by {row['documents']:+,} documents, {row['chunks']:+,} chunks, {row['words']:+,} words, "
            f"{row['deleted']:+,} deleted."
        )


def _tell(row: Record) -> IntegrityFinding:
    off = ", ".join(f"{row[what]:+,} {what}" for what in WHAT if row[what])  # what the counts lack
    return IntegrityFinding(
        row["id"],
        f"The counts of the collection {row['name']} are off: to be right they need {off}.",
        "penstock schedules run check-documents",
        None,
        row["tenant"],
    )
