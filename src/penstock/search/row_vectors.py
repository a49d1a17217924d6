"""Vectors of the rows of another table: facts and memos, and the hybrid search in them.

    vectors = RowVectors("facts", "static")
    await vectors.prepare(database, dimensions)          # idempotent
    async with ctx.write() as tx:
        await vectors.put(tx, collection, ids, rows)     # deleting a fact deletes its vector
    found = await vectors.nearest(session, [collection], vector, 20)

A vector belongs to a row and to a group (a fact's collection, a memo's stream). A table is searched from end to end until it
is large; then maintenance gives it an index (`needs_index`, `build_index`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from penstock.database import Database, Session, Statement, statements
from penstock.errors import DatabaseUnsuitable
from penstock.search.fusion import VECTORS_WEIGHT, WORDS_WEIGHT, Ranking, fuse, join, ranked
from penstock.search.vectors import MODEL, making, open_owner, vector_schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

MANY = 20_000  # rows from which an index is worth more than it costs each new row
OWNERS = ("facts", "memos")  # tables whose rows have vectors; they are grouped by collection and by stream


@dataclass(frozen=True)
class RowVectors:
    of: str  # facts or memos
    model: str
    schema: str = "public"  # of pgvector

    def __post_init__(self) -> None:
        if self.of not in OWNERS or not MODEL.fullmatch(self.model):
            raise ValueError(f"{self.of!r} cannot have vectors by {self.model!r}")

    def statement(self, name: str, dimensions: int = 0) -> Statement:
        """A statement of row_vectors.sql with these names in it; they are checked words and whole numbers."""
        return self.named(getattr(sql, name), **({"dimensions_number": dimensions} if name == "create" else {}))

    def named(self, statement: Statement, **numbers: int) -> Statement:
        """A statement of any module with the names of this model's table in it."""
        names = {"near_table": f"{self.of}_near_{self.model}", "owner_table": self.of, "vector_schema": self.schema}
        return statement.named(**{word: name for word, name in names.items() if word in statement.text}, **numbers)

    async def in_schema(self, session: Session) -> "RowVectors":
        """The same, with the schema in which this database has pgvector."""
        return RowVectors(self.of, self.model, await vector_schema(session))

    async def prepare(self, database: Database, dimensions: int) -> None:
        """Make the table unless it exists. Raises DatabaseUnsuitable when it is for vectors of another length."""
        found = await database.pool.repeat(self.statement("dimensions").value)
        if found is None:
            async with making(database) as (session, schema):
                made = RowVectors(self.of, self.model, schema)
                for step in ("create", "store_in_the_row", "index_groups", f"guard_{self.of}"):
                    await made.statement(step, dimensions).run(session)
        elif found != dimensions:
            raise DatabaseUnsuitable(
                f"The {self.of} by the model {self.model!r} have vectors of {found} dimensions, but the model returns "
                f"{dimensions}: give the other model a name of its own."
            )

    async def put(self, tx: Session, group: int, ids: Sequence[int], vectors: "NDArray[np.float32]") -> None:
        """Add the vectors of rows that are there, or are written in this transaction."""
        texts = [written(vector) for vector in vectors]
        put = (await self.in_schema(tx)).statement("put")
        await put.run(tx, group=group, ids=list(ids), texts=texts)

    async def nearest(
        self, session: Session, groups: Sequence[int], vector: "NDArray[np.float32]", most: int
    ) -> list[tuple[int, float]]:
        """Rows and their cosines, the nearest first. Empty when nothing was ever put."""
        if not await self.statement("exists").value(session):
            return []
        statement = (await self.in_schema(session)).statement("nearest")
        rows = await statement(session, groups=list(groups), asked=written(vector), most=most)
        return [(row["id"], -row["distance"]) for row in rows]

    async def needs_index(self, session: Session) -> bool:
        """Many rows, and no index."""
        return bool(await self.statement("needs_index").value(session, many=MANY))

    async def build_index(self, database: Database) -> None:
        """Takes some minutes for a million rows; writes go on meanwhile."""
        here = await database.pool.repeat(self.in_schema)
        session = await open_owner(database)
        try:
            await self.statement("drop_index").run(session)  # left by a process that died while building it
            await here.statement("build_index").run(session)
        finally:
            session.terminate()


@dataclass(frozen=True)
class RowSearch:
    """Hybrid search in facts or memos: the rows found by words, and those nearest to the question, in one ranking."""

    of: str
    depth: int  # rows of each ranking
    candidates: int  # nearest rows that are read, of which some may be hidden
    weight: float = VECTORS_WEIGHT  # of the nearest; words have 1
    least: float = -inf  # a nearer row has a larger cosine

    async def rank(
        self,
        tx: Session,
        groups: Sequence[int],
        words: Sequence[tuple[int, float]],
        asked: "Mapping[str, NDArray[np.float32]]",
        visible: Callable[[list[int]], Awaitable[set[int]]],
    ) -> Ranking:
        """Fuse the rows found by words, best first, with the nearest to the question by each model that are visible."""
        near = []
        for model, vector in asked.items():
            found = await RowVectors(self.of, model).nearest(tx, groups, vector, self.candidates)
            found = [(row_id, cosine) for row_id, cosine in found if cosine > self.least]
            seen = await visible([row_id for row_id, _ in found])
            near.append(ranked([each for each in found if each[0] in seen][: self.depth]))
        by_words = (ranked(words[: self.depth]), WORDS_WEIGHT)
        return fuse([by_words, (join(near), self.weight)] if near else [by_words])


async def models_of(session: Session, of: str) -> list[str]:
    """The models by which there may be vectors of a table's rows."""
    prefix = f"{of}_near_"
    return [row["model"] for row in await sql.models_of(session, prefix=prefix)]


async def build_missing_indexes(database: Database) -> int:
    """Build an index for each table that has grown large; how many were built."""
    built = 0
    for of in OWNERS:
        for model in await database.pool.repeat(models_of, of=of):
            vectors = RowVectors(of, model)
            if await database.pool.repeat(vectors.needs_index):
                await vectors.build_index(database)
                built += 1
    return built


def written(vector: "NDArray[np.float32]") -> str:
    """The vector as text that pgvector reads."""
    return f"[{','.join(f'{number:.6g}' for number in vector.tolist())}]"
