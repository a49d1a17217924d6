"""Live versions have all their rows: chunks, vectors of the collection's model, postings, pages; and are not hidden.

Each comparison is one statement, and so one snapshot: it sees a concurrent publication, merge, switch or removal wholly or
not at all. A version that lacks rows is prepared again, as the next version of the same bytes; the old one stays live until
then. That is done once for a document, and for few documents in a run; the rest is reported.
"""

from collections.abc import Iterator, Sequence

from asyncpg import Record

from penstock.database import statements
from penstock.documents.integrity.finding import Cursor, IntegrityFinding, Repair, cut_page
from penstock.documents.lifecycle import KIND, replace_in
from penstock.documents.names import fairness_key_of
from penstock.engine import Penstock
from penstock.errors import QueueFull
from penstock.search import VectorTable
from penstock.search.bm25 import BUCKETS

sql = statements(__file__)

PAGE = 500
CHUNKS = 20_000  # of a page, but for a single version that has more
RENEWED = 5  # documents in one run
HIDDEN = "is live, and hidden from search"
SHOW = "show"  # the repair of a version that only lacks this


class LiveCheck:
    """Live versions are complete."""

    name = "live"

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._database = app.database
        self._left = RENEWED

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        rows = await self._database.pool.repeat(sql.page, after=after[0] if after else 0, most=PAGE)
        return cut_page(rows, PAGE, weight="chunks", most=CHUNKS)

    async def find(self, subjects: Sequence[int]) -> list[IntegrityFinding]:
        versions = list(subjects)
        rows = await self._database.pool.repeat(sql.count_rows, versions=versions, buckets=BUCKETS)
        wrong = {row["id"]: (row, list(_compare(row))) for row in rows}
        for model in {row["model"] for row in rows}:
            for row in await self._count_vectors(model, versions):
                wrong.setdefault(row["id"], (row, []))[1].append(
                    f"has {row['chunks']:,} chunks and {row['vectors']:,} vectors of the model {model}"
                )
        return [_tell(row, said) for row, said in wrong.values() if said]

    async def _count_vectors(self, model: str, versions: list[int]) -> list[Record]:
        table = VectorTable(model)
        if not await self._database.pool.repeat(table.exists):
            return await self._database.pool.repeat(sql.without_vectors, versions=versions, model=model)
        count_vectors = table.named(sql.count_vectors)
        return await self._database.pool.repeat(count_vectors, versions=versions, model=model)

    async def repair(self, found: IntegrityFinding) -> Repair | None:
        if found.repair == SHOW:
            async with self._database.pool.transaction() as tx:
                shown = await sql.show_live.value(tx, version=found.subject)
            return None if shown is None else Repair("It is shown again.")
        if self._left == 0 or found.document is None:
            return None
        self._left -= 1
        return await self._prepare_again(found.subject)

    async def _prepare_again(self, version: int) -> Repair | None:
        """Only of a document that is ready: others have a newer version on its way, or have failed."""
        try:
            async with self._database.pool.transaction() as tx:
                row = await sql.renewable.first(tx, version=version, name=self.name)
                if row is None or KIND not in self._app.kinds:
                    return None
                replaced = await replace_in(
                    tx,
                    self._app,
                    document=row["document"],
                    job=row["job_id"],
                    version=version,
                    blob=row["blob_id"],
                    fairness_key=fairness_key_of(row["tenant"], row["collection"]),
                    metadata=row["metadata"],
                    uploaded_by=row["uploaded_by"],
                )
        except QueueFull:
            return None  # the next run tries again
        if replaced is None:
            return None
        return Repair(f"It is prepared again, as version {replaced.number}, by job {replaced.job}.", complete=False)


def _compare(row: Record) -> Iterator[str]:
    chunks = row["chunks"]
    if chunks != row["chunk_rows"]:
        yield f"has {chunks:,} chunks and {row['chunk_rows']:,} rows of them"
    if chunks != row["indexed"]:
        yield f"has {chunks:,} chunks and {row['indexed']:,} of them in the postings"
    if row["torn"]:
        yield f"lacks postings of {row['torn']:,} of its batches"
    if row["pages"] != row["page_rows"]:
        yield f"has {row['pages']:,} pages and {row['page_rows']:,} rows of them"
    if row["hidden"]:
        yield HIDDEN


def _tell(row: Record, said: Sequence[str]) -> IntegrityFinding:
    document = row["document"]
    sentence = f"Document {document} ({row['collection']}/{row['name']}) {'; it '.join(said)}."
    repair = SHOW if said[-1] == HIDDEN else ""
    return IntegrityFinding(row["id"], sentence, f"penstock why {document}", document, row["tenant"], repair)
