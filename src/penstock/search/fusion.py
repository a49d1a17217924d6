"""Rankings, as arithmetic on arrays, and the fusion of several into one.

A ranking is an array of chunk keys, the best first; equal scores are ordered by key, so that pages of a result fit together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DAMPING = 10  # of reciprocal ranks: a larger one makes the first places stand out less
DEPTH = 1200  # of a ranking: more than the last page needs
WORDS_WEIGHT = 1.0
VECTORS_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunk keys, the best first, with their scores."""

    keys: "NDArray[np.int64]"
    scores: "NDArray[np.float64]"


def in_order(keys: "NDArray[np.int64]", scores: "NDArray[np.float64]") -> Ranking:
    """Sort by score, then by key; no deeper than the last page that can be asked for."""
    import numpy as np

    if len(keys) > DEPTH:
        near = scores >= np.partition(scores, -DEPTH)[-DEPTH]
        keys, scores = keys[near], scores[near]
    order = np.lexsort((keys, -scores))[:DEPTH]
    return Ranking(keys[order], scores[order])


def ranked(found: Sequence[tuple[int, float]]) -> Ranking:
    """The ranking of keys that are in their order already, with their scores."""
    import numpy as np

    keys = np.fromiter((key for key, _ in found), np.int64, len(found))
    return Ranking(keys, np.fromiter((score for _, score in found), np.float64, len(found)))


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
