"""BM25: reads the postings of a question's words as packed bytes, and ranks them in a thread, without the connection.

Collections of one language are one text to BM25: rarity and length are those of all of them together.
"""

import asyncio
from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple

from penstock.database import Session, statements
from penstock.search.bm25.postings import bucket_of, only, unpack, versions_of, without
from penstock.search.bm25.tokenizer import vocabulary
from penstock.search.fusion import Ranking, in_order, join
from penstock.search.query import CollectionRef, Query
from penstock.search.snapshot import Snapshot, Statistics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

K1 = 1.2  # saturation: how soon repetitions of a word stop counting
B = 0.75  # how much long chunks are penalised
TERMS_MAX = 100  # different words of a question that are looked up
ENTRIES_MAX = 1_000_000  # entries that are read for a question; the rarest words come first
COMMON = 10_000  # entries of a word: fewer are read, however common it is


class ReadPostings(NamedTuple):
    """The postings of a question in the collections of one language, and what they are measured by."""

    postings: Sequence[bytes]
    statistics: Statistics


async def read_postings(tx: Session, query: Query, snapshot: Snapshot) -> list[ReadPostings]:
    """Read the postings for each language, one after the other on the same connection."""
    found = []
    for language, collections in by_language(query).items():
        terms = vocabulary(language).ask(query.text)[:TERMS_MAX]
        statistics = snapshot.total(collections)
        rows = await sql.read_postings(
            tx,
            terms=terms,
            buckets=[bucket_of(term) for term in terms],
            collections=[collection.id for collection in collections],
            most=ENTRIES_MAX,
            common=max(COMMON, statistics.chunks // 2),
        )
        found.append(ReadPostings([row["entries"] for row in rows], statistics))
    return found


async def rank_postings(read: Sequence[ReadPostings], snapshot: Snapshot) -> Ranking:
    return await asyncio.to_thread(_rank, read, snapshot)


def _rank(read: Sequence[ReadPostings], snapshot: Snapshot) -> Ranking:
    hidden = versions_of(snapshot.hidden)
    rankings = []
    for each in read:
        live = [without(unpack(entries), hidden) for entries in each.postings]
        keys, scores = rank_words(live, each.statistics)
        if snapshot.allowed is not None:  # after the scores: what is rare does not depend on a filter
            passes = only(keys, versions_of(snapshot.allowed))
            keys, scores = keys[passes], scores[passes]
        rankings.append(in_order(keys, scores))
    return join(rankings)


def rank_words(
    postings: "Sequence[NDArray[np.void]]", statistics: Statistics
) -> "tuple[NDArray[np.int64], NDArray[np.float64]]":
    """BM25 of all chunks that have a word of the question; one array of live entries for each word."""
    import numpy as np

    keys, gains = [], []
    for entries in postings:
        if len(entries):
            keys.append(entries["key"])
            gains.append(_gain(entries, statistics))
    if not keys:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    chunks, places = np.unique(np.concatenate(keys), return_inverse=True)
    scores: NDArray[np.float64] = np.bincount(places, np.concatenate(gains)).astype(np.float64)
    return chunks, scores


def _gain(entries: "NDArray[np.void]", statistics: Statistics) -> "NDArray[np.float64]":
    # Rarer than in half of the chunks or not, a word never counts against a chunk.
    rarity = log(1 + max(0, statistics.chunks - len(entries) + 0.5) / (len(entries) + 0.5))
    counts = entries["count"].astype("f8")
    length = entries["words"].astype("f8") / statistics.average
    gains: NDArray[np.float64] = rarity * counts * (K1 + 1) / (counts + K1 * (1 - B + B * length))
    return gains


def by_language(query: Query) -> dict[str, list[CollectionRef]]:
    groups: dict[str, list[CollectionRef]] = {}
    for collection in query.collections:
        groups.setdefault(collection.language, []).append(collection)
    return groups
