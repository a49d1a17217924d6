"""The meaning of a question: the chunks whose vectors are nearest to its own.

Collections without a vector index are looked through from end to end, and so are all when filters leave little: an index
would have to be walked for long to meet it. What another index has said of its collections is joined with that (outside.py).
The SQL is in vectors.sql.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from asyncpg import Record

from penstock.database import Session
from penstock.search.entries import chunk_key
from penstock.search.moment import Moment
from penstock.search.outside import Outside
from penstock.search.query import Query
from penstock.search.rank import Ranking, in_order, join
from penstock.search.vectors import VectorTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 20_000  # chunks that filters leave, and that are then looked at one by one


async def nearest(
    tx: Session, query: Query, moment: Moment, asked: "tuple[str, NDArray[np.float32]]", outside: Outside
) -> Ranking:
    """The nearest chunks of the collections with a model, and the question by that model; a score is the cosine."""
    model, vector = asked
    table = VectorTable(model, moment.vector_schema)
    if not await table.exists(tx):  # nothing was ever indexed with it
        return ranking([])
    few = moment.allowed is not None and moment.allowed_chunks <= FEW
    ids = outside.looked_at_here(model, moment, few=few)
    values = {
        "asked": f"[{','.join(f'{number:.6g}' for number in vector.tolist())}]",
        "hidden": moment.hidden,
        "allowed": moment.allowed,
        "most": outside.depth,
    }
    here = await _look_here(tx, table, ids, values, few=few)
    there = None if few else await outside.confirmed(tx, model, moment)
    if there is None:
        return here
    found = join([here, there])
    return Ranking(found.keys[: outside.depth], found.scores[: outside.depth])


async def _look_here(tx: Session, table: VectorTable, ids: list[int], values: dict[str, Any], *, few: bool) -> Ranking:
    """In PostgreSQL."""
    if not ids:
        return ranking([])
    indexed = [] if few else await indexed_collections(tx, table, ids)
    unindexed = [number for number in ids if number not in indexed]
    rows = await table.statement("nearest")(tx, **values, collections=ids, unindexed=unindexed)
    for collection in indexed:
        rows += await table.statement("nearest_by_index", collection=collection)(tx, **values)
    found, depth = ranking(rows), values["most"]
    return Ranking(found.keys[:depth], found.scores[:depth])


async def indexed_collections(tx: Session, table: VectorTable, ids: list[int]) -> list[int]:
    rows = await table.statement("indexed_collections")(tx, collections=ids)
    return [row["id"] for row in rows]


def ranking(rows: Iterable[Record]) -> Ranking:
    import numpy as np

    found = [(chunk_key(row["version_id"], row["ordinal"]), -row["distance"]) for row in rows]
    keys = np.array([key for key, _ in found], dtype=np.int64)
    return in_order(keys, np.array([score for _, score in found], dtype=np.float64))
