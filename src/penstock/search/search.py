"""Search: the words of a question by BM25, its meaning by vectors, and both in one ranking. A question passes through:

    query.py            the question, checked: text, collections, filters, mode
    search.py           `find` embeds it and opens a read-only transaction; `nearest` finds chunks by vectors
    qdrant/query.py     asks Qdrant for collections that are searched there, before the transaction begins
    snapshot.py         statistics, hidden versions, and the versions that pass the filters
    bm25/score.py       reads the postings of its words (bm25/tokenizer.py, bm25/postings.py) and ranks them in a thread
    vectors.py          the tables of vectors of each model
    fusion.py           joins rankings of several models, and fuses words and vectors into one
    hits.py             checks phrases, and reads the chunks of one page as hits

    found = await find(database, models, Query("how deep is it", [CollectionRef(1, "static", "english")]))

All statements of a question share one snapshot: it counts, ranks and shows one state of the database. What Qdrant finds
counts only if the snapshot confirms it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from asyncpg import Record

from penstock.database import Database, Session
from penstock.errors import BadSetting, CannotStart, ConnectionLost
from penstock.search.bm25.postings import chunk_key
from penstock.search.bm25.score import rank_postings, read_postings
from penstock.search.fusion import DEPTH, VECTORS_WEIGHT, WORDS_WEIGHT, Ranking, fuse, in_order, join
from penstock.search.hits import phrases_of, show_hits, with_phrases
from penstock.search.qdrant.client import Qdrant
from penstock.search.qdrant.query import QdrantQuery, QuestionVectors, TooFew
from penstock.search.query import Found, Hit, Query
from penstock.search.snapshot import Snapshot, take_snapshot
from penstock.search.vectors import VectorTable
from penstock.telemetry import log

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FEW = 20_000  # chunks that filters leave, and whose vectors are then compared one by one
NEAREST = 100  # chunks by which vectors take part in a hybrid ranking
EF_MAX = 1000  # pgvector's limit
TRIES = 3  # of a question whose connection is lost


class QuestionEmbedder(Protocol):
    """A model, as far as search needs it."""

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]": ...


class ModelOpener(Protocol):
    """All models, as far as search needs them."""

    def open(self, name: str) -> QuestionEmbedder: ...


async def find(database: Database, models: ModelOpener, query: Query, qdrant: Qdrant | None = None) -> Found:
    """One page of the chunks that answer best; `qdrant` is for collections that are searched there."""
    began = time.monotonic()
    hits: list[Hit] = []
    more = False
    qdrant_query = QdrantQuery(qdrant, query, _depth(query))
    if query.collections and query.text.strip():
        wanted = () if query.mode == "words" else sorted({collection.model for collection in query.collections})
        asked = await embed_question(models, _plain(query.text), wanted)
        await qdrant_query.ask(asked)
        tries_left = TRIES
        while tries_left:
            try:
                async with snapshot_transaction(database, _depth(query)) as tx:
                    hits, more = await _answer(tx, query, asked, qdrant_query)
                break
            except TooFew:  # once: then the deeper ones were asked for
                await qdrant_query.ask_deeper(asked)
            except ConnectionLost:  # only reads: they can be done again
                tries_left -= 1
                if not tries_left:
                    raise
    return Found(hits, more, time.monotonic() - began, qdrant_query.fallback)


async def embed_question(
    models: ModelOpener, text: str, names: Iterable[str], *, skip_missing: bool = False
) -> QuestionVectors:
    """The vector of a question by each of these models, unless it is empty.

    With `skip_missing`, a model that cannot be opened is left out instead of raising.
    """
    vectors = {}
    for name in names:
        try:
            [vector] = await models.open(name).embed([text])
        except (BadSetting, CannotStart) as error:
            if not skip_missing:
                raise
            log.warning("a search leaves out a model that cannot be opened", model=name, error=str(error))
            continue
        if vector.any():
            vectors[name] = vector
    return vectors


def _plain(text: str) -> str:
    """The text without quotation marks, and in lower case if it is all capitals: models have hardly seen such text."""
    text = text.replace('"', " ")
    return text.lower() if text.isupper() else text


def _depth(query: Query) -> int:
    """The number of nearest chunks to find. Constant for a hybrid ranking, so that its pages fit together."""
    return NEAREST if query.mode == "hybrid" or query.offset + query.k < NEAREST else DEPTH


@asynccontextmanager
async def snapshot_transaction(database: Database, depth: int) -> AsyncIterator[Session]:
    """A transaction that sees one snapshot, for a question of this depth.

    Plans are made for the values at hand: the index of a collection, a filter that leaves little, nothing hidden.
    """
    async with database.pool.transaction() as tx:
        await tx.execute(
            "set transaction isolation level repeatable read, read only; set local plan_cache_mode = force_custom_plan; "
            "set local max_parallel_workers_per_gather = 0; set local hnsw.iterative_scan = strict_order; "
            f"set local hnsw.ef_search = {min(depth, EF_MAX)}"
        )
        yield tx


async def _answer(
    tx: Session, query: Query, asked: QuestionVectors, qdrant_query: QdrantQuery
) -> tuple[list[Hit], bool]:
    ranking = await _rank(tx, query, asked, qdrant_query)
    last = query.offset + query.k
    page = Ranking(ranking.keys[query.offset : last], ranking.scores[query.offset : last])
    return await show_hits(tx, page, query), len(ranking.keys) > last


async def _rank(tx: Session, query: Query, asked: QuestionVectors, qdrant_query: QdrantQuery) -> Ranking:
    snapshot = await take_snapshot(tx, query)
    if query.mode == "vectors":
        return join([await nearest(tx, query, snapshot, each, qdrant_query) for each in asked.items()])
    read = await read_postings(tx, query, snapshot)
    scoring = asyncio.create_task(rank_postings(read, snapshot))  # goes on while the server compares vectors
    try:
        near = [await nearest(tx, query, snapshot, each, qdrant_query) for each in asked.items()]
    finally:
        words = await scoring
    if phrases := phrases_of(query.text):
        words = await with_phrases(tx, words, phrases, query)
        near = [_among(words, ranking) for ranking in near]
    if query.mode == "words":
        return words
    return fuse([(words, WORDS_WEIGHT), *((ranking, VECTORS_WEIGHT) for ranking in near)])


def _among(words: Ranking, ranking: Ranking) -> Ranking:
    """The chunks in both: a phrase is checked by words alone."""
    import numpy as np

    there = np.isin(ranking.keys, words.keys)
    return Ranking(ranking.keys[there], ranking.scores[there])


# -- vectors ------------------------------------------------------------------------------------------------------


async def nearest(
    tx: Session, query: Query, snapshot: Snapshot, asked: "tuple[str, NDArray[np.float32]]", qdrant_query: QdrantQuery
) -> Ranking:
    """The nearest chunks of the collections with a model, and the question by that model; a score is the cosine."""
    model, vector = asked
    table = VectorTable(model, snapshot.vector_schema)
    if not await table.exists(tx):  # nothing was ever indexed with it
        return ranking([])
    few = snapshot.allowed is not None and snapshot.allowed_chunks <= FEW
    ids = qdrant_query.answered_here(model, snapshot, few=few)
    values = {
        "asked": f"[{','.join(f'{number:.6g}' for number in vector.tolist())}]",
        "hidden": snapshot.hidden,
        "allowed": snapshot.allowed,
        "most": qdrant_query.depth,
    }
    here = await _nearest_here(tx, table, ids, values, few=few)
    there = None if few else await qdrant_query.confirmed(tx, model, snapshot)
    if there is None:
        return here
    found = join([here, there])
    return Ranking(found.keys[: qdrant_query.depth], found.scores[: qdrant_query.depth])


async def _nearest_here(
    tx: Session, table: VectorTable, ids: list[int], values: dict[str, Any], *, few: bool
) -> Ranking:
    """The nearest chunks of these collections in PostgreSQL."""
    if not ids:
        return ranking([])
    indexed = [] if few else await indexed_collections(tx, table, ids)
    unindexed = [each for each in ids if each not in indexed]
    rows = await table.statement("nearest")(tx, **values, collections=ids, unindexed=unindexed)
    for collection in indexed:
        rows += await table.statement("nearest_by_index", collection=collection)(tx, **values)
    found, depth = ranking(rows), values["most"]
    return Ranking(found.keys[:depth], found.scores[:depth])


async def indexed_collections(tx: Session, table: VectorTable, ids: list[int]) -> list[int]:
    rows = await table.statement("indexed_collections")(tx, compacted=table.compacted, collections=ids)
    return [row["id"] for row in rows]


def ranking(rows: Iterable[Record]) -> Ranking:
    import numpy as np

    found = [(chunk_key(row["version_id"], row["ordinal"]), -row["distance"]) for row in rows]
    keys = np.array([key for key, _ in found], dtype=np.int64)
    return in_order(keys, np.array([score for _, score in found], dtype=np.float64))
