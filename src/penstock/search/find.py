"""Search: the words of a question by BM25, its meaning by vectors, and both in one ranking.

    found = await find(database, models, Query("how deep is it", [CollectionRef(1, "static", "english")]))

All statements of a question share one snapshot: what it counts, ranks and shows is of one moment. PostgreSQL hands out the
postings of the words as packed bytes; the arithmetic happens here, in a thread, while the server looks for the vectors. Another
index is asked before the snapshot is taken, and believed only in what the snapshot confirms (outside.py).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from penstock.database import Database, Session
from penstock.errors import ConnectionLost
from penstock.search.lookup import rank_postings, read_postings
from penstock.search.moment import look_around
from penstock.search.near import nearest
from penstock.search.outside import Asked, Outside, TooFew
from penstock.search.qdrant import Qdrant
from penstock.search.query import Found, Hit, Query
from penstock.search.rank import DEPTH, VECTORS_WEIGHT, WORDS_WEIGHT, Ranking, fuse, join
from penstock.search.show import phrases_of, show_hits, with_phrases

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAREST = 100  # chunks by which vectors take part in a hybrid ranking
EF_MAX = 1000  # pgvector's limit
TRIES = 3


class Embeds(Protocol):
    """What search needs of a model."""

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]": ...


class Opens(Protocol):
    """What search needs of all models."""

    def open(self, name: str) -> Embeds: ...


async def find(database: Database, models: Opens, query: Query, qdrant: Qdrant | None = None) -> Found:
    """One page of the chunks that answer best; `qdrant` is for collections that are searched there."""
    began = time.monotonic()
    hits: list[Hit] = []
    more = False
    outside = Outside(qdrant, query, _depth(query))
    if query.collections and query.text.strip():
        asked = await _embed(models, query)
        await outside.ask(asked)
        tries_left = TRIES
        while tries_left:
            try:
                async with _snapshot(database, _depth(query)) as tx:
                    hits, more = await _answer(tx, query, asked, outside)
                break
            except TooFew:  # once: what is deeper has been asked for then
                await outside.ask_deeper(asked)
            except ConnectionLost:  # only reads: they can be done again
                tries_left -= 1
                if not tries_left:
                    raise
    return Found(hits, more, time.monotonic() - began, outside.fallback)


async def _embed(models: Opens, query: Query) -> Asked:
    """The question by each model that is asked, unless it means nothing to it."""
    if query.mode == "words":
        return {}
    vectors = {}
    for name in sorted({collection.model for collection in query.collections}):
        [vector] = await models.open(name).embed([_plain(query.text)])
        if vector.any():
            vectors[name] = vector
    return vectors


def _plain(text: str) -> str:
    """Without marks of phrases, and not in capitals throughout: models have hardly seen such text."""
    text = text.replace('"', " ")
    return text.lower() if text.isupper() else text


def _depth(query: Query) -> int:
    """How many of the nearest are looked for. For a hybrid ranking always as many, so that its pages fit together."""
    return NEAREST if query.mode == "hybrid" or query.offset + query.k < NEAREST else DEPTH


@asynccontextmanager
async def _snapshot(database: Database, depth: int) -> AsyncIterator[Session]:
    """Plans are made for the values at hand: the index of a collection, a filter that leaves little, nothing hidden."""
    async with database.pool.transaction() as tx:
        await tx.execute(
            "set transaction isolation level repeatable read, read only; set local plan_cache_mode = force_custom_plan; "
            "set local max_parallel_workers_per_gather = 0; set local hnsw.iterative_scan = strict_order; "
            f"set local hnsw.ef_search = {min(depth, EF_MAX)}"
        )
        yield tx


async def _answer(tx: Session, query: Query, asked: Asked, outside: Outside) -> tuple[list[Hit], bool]:
    ranking = await _rank(tx, query, asked, outside)
    last = query.offset + query.k
    page = Ranking(ranking.keys[query.offset : last], ranking.scores[query.offset : last])
    return await show_hits(tx, page, query), len(ranking.keys) > last


async def _rank(tx: Session, query: Query, asked: Asked, outside: Outside) -> Ranking:
    moment = await look_around(tx, query)
    if query.mode == "vectors":
        return join([await nearest(tx, query, moment, each, outside) for each in asked.items()])
    read = await read_postings(tx, query, moment)
    scoring = asyncio.create_task(rank_postings(read, moment))  # goes on while the server looks at vectors
    try:
        near = [await nearest(tx, query, moment, each, outside) for each in asked.items()]
    finally:
        words = await scoring
    if phrases := phrases_of(query.text):
        words = await with_phrases(tx, words, phrases, query)
        near = [_among(words, ranking) for ranking in near]
    if query.mode == "words":
        return words
    return fuse([(words, WORDS_WEIGHT), *((ranking, VECTORS_WEIGHT) for ranking in near)])


def _among(words: Ranking, ranking: Ranking) -> Ranking:
    """What is in both: a phrase that must be there is a matter of words."""
    import numpy as np

    there = np.isin(ranking.keys, words.keys)
    return Ranking(ranking.keys[there], ranking.scores[there])
