"""What small texts mean: the vectors of facts and memos, beside the tables that they belong to.

    likeness = Likeness("facts", "static")
    await likeness.prepare(database, dimensions)          # once; again is the same
    async with ctx.write() as tx:
        await likeness.put(tx, collection, ids, vectors)  # goes with the rows: deleting a fact deletes its vector
    found = await likeness.nearest(session, [collection], vector, 20)

A vector belongs to a row and to a group (a fact's collection, a memo's stream). A table is looked through from end to end
until it is large; then upkeep gives it an index (`needs_index`, `build_index`). The SQL is in likeness.sql.
"""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.database import Database, Session, Statement, statements
from penstock.errors import DatabaseUnsuitable
from penstock.search.vectors import MODEL, making, open_owner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

templates = statements(__file__)

MANY = 20_000  # rows from which an index is worth more than it costs each new row
OWNERS = ("facts", "memos")  # tables whose rows have vectors; they are grouped by collection and by stream


@dataclass(frozen=True)
class Likeness:
    """The vectors of one table's rows by one model."""

    of: str  # facts or memos
    model: str
    schema: str = "public"  # of pgvector

    def __post_init__(self) -> None:
        if self.of not in OWNERS or not MODEL.fullmatch(self.model):
            raise ValueError(f"there are no vectors of {self.of!r} by {self.model!r}")

    def statement(self, name: str, dimensions: int = 0) -> Statement:
        """A statement of likeness.sql with these names in it; they are checked words and whole numbers."""
        statement: Statement = copy.copy(getattr(templates, name))
        text = re.sub(r"\bnear_table(\w*)", rf'"{self.of}_near_{self.model}\1"', statement.text)
        text = text.replace("owner_table", self.of)
        statement.text = text.replace("dimensions_number", str(int(dimensions))).replace("vector_schema", self.schema)
        return statement

    async def prepare(self, database: Database, dimensions: int) -> None:
        """Make the table unless it is there; one sentence when it is for vectors of another length."""
        found = await database.pool.repeat(self.statement("dimensions").value)
        if found is None:
            async with making(database) as (session, schema):
                made = Likeness(self.of, self.model, schema)
                for step in ("create", "store_in_the_row", "index_groups", f"guard_{self.of}"):
                    await made.statement(step, dimensions).run(session)
        elif found != dimensions:
            raise DatabaseUnsuitable(
                f"The {self.of} by the model {self.model!r} have vectors of {found} dimensions, but the model gives "
                f"{dimensions}: give the other model a name of its own."
            )

    async def put(self, tx: Session, group: int, ids: Sequence[int], vectors: "NDArray[np.float32]") -> None:
        """Add the vectors of rows that are there, or are written in this transaction."""
        texts = [written(vector) for vector in vectors]
        await self._here(await _schema(tx)).statement("put").run(tx, group=group, ids=list(ids), texts=texts)

    async def nearest(
        self, session: Session, groups: Sequence[int], vector: "NDArray[np.float32]", most: int
    ) -> list[tuple[int, float]]:
        """Rows and their cosines, the nearest first. Empty when nothing was ever put."""
        if not await self.statement("exists").value(session):
            return []
        statement = self._here(await _schema(session)).statement("nearest")
        rows = await statement(session, groups=list(groups), asked=written(vector), most=most)
        return [(row["id"], -row["distance"]) for row in rows]

    async def needs_index(self, session: Session) -> bool:
        """Many rows, and no index."""
        return bool(await self.statement("needs_index").value(session, many=MANY))

    async def build_index(self, database: Database) -> None:
        """Some minutes for a million rows; nobody waits for it, and writes go on."""
        schema = await database.pool.repeat(_schema)
        session = await open_owner(database)
        try:
            await self.statement("drop_index").run(session)  # of one who died while building it
            await self._here(schema).statement("build_index").run(session)
        finally:
            session.terminate()

    def _here(self, schema: str) -> "Likeness":
        return Likeness(self.of, self.model, schema)


async def models_of(session: Session, of: str) -> list[str]:
    """The models by which there may be vectors of a table's rows."""
    prefix = f"{of}_near_"
    return [row["model"] for row in await templates.models_of(session, prefix=prefix)]


async def build_missing_indexes(database: Database) -> int:
    """For upkeep: an index for each table that has grown large; how many were built."""
    built = 0
    for of in OWNERS:
        for model in await database.pool.repeat(partial(models_of, of=of)):
            likeness = Likeness(of, model)
            if await database.pool.repeat(likeness.needs_index):
                await likeness.build_index(database)
                built += 1
    return built


async def _schema(session: Session) -> str:
    return str(await templates.vector_schema.value(session))


def written(vector: "NDArray[np.float32]") -> str:
    """As pgvector reads it."""
    return f"[{','.join(f'{number:.6g}' for number in vector.tolist())}]"
