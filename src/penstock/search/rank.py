"""Rankings, as arithmetic on arrays: BM25 of the words, and the fusion of two rankings into one.

A ranking is an array of chunk keys, the best first; equal scores are ordered by key, so that pages of a result fit together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.2  # how soon more of the same word stops to count
B = 0.75  # how much a long chunk is held against it
DAMPING = 10  # of reciprocal ranks: how little the first places stand out
DEPTH = 1200  # of a ranking: more than the last page needs
WORDS_WEIGHT = 1.0
VECTORS_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of all live chunks that are asked."""

    chunks: int
    words: int

    @property
    def average(self) -> float:
        return self.words / self.chunks if self.chunks and self.words else 1.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunk keys, the best first, with their scores."""

    keys: "NDArray[np.int64]"
    scores: "NDArray[np.float64]"


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


def in_order(keys: "NDArray[np.int64]", scores: "NDArray[np.float64]") -> Ranking:
    """By score, then by key; no deeper than anybody can ask."""
    import numpy as np

    if len(keys) > DEPTH:
        near = scores >= np.partition(scores, -DEPTH)[-DEPTH]
        keys, scores = keys[near], scores[near]
    order = np.lexsort((keys, -scores))[:DEPTH]
    return Ranking(keys[order], scores[order])


def join(rankings: Sequence[Ranking]) -> Ranking:
    """Rankings of different chunks whose scores can be compared."""
    import numpy as np

    if len(rankings) == 1:
        return rankings[0]
    keys = [ranking.keys for ranking in rankings] or [np.zeros(0, dtype=np.int64)]
    scores = [ranking.scores for ranking in rankings] or [np.zeros(0)]
    return in_order(np.concatenate(keys), np.concatenate(scores))


def fuse(rankings: Sequence[tuple[Ranking, float]]) -> Ranking:
    """Reciprocal rank fusion: a chunk's score is the sum of weight / (10 + place) over the rankings that have it; 1 at most."""
    import numpy as np

    keys = [ranking.keys for ranking, _ in rankings]
    gains = [weight / (DAMPING + 1 + np.arange(len(ranking.keys))) for ranking, weight in rankings]
    best = sum(weight for _, weight in rankings) / (DAMPING + 1)
    chunks, places = np.unique(np.concatenate(keys), return_inverse=True)
    return in_order(chunks, np.bincount(places, weights=np.concatenate(gains), minlength=len(chunks)) / best)
