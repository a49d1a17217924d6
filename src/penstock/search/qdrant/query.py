"""The query to Qdrant, sent before the snapshot is taken, so that no connection waits for it.

    qdrant_query = QdrantQuery(qdrant, query, depth)
    await qdrant_query.ask(vectors)                          # without a connection
    ids = qdrant_query.answered_here(model, snapshot, …)     # collections that PostgreSQL answers for
    ranking = await qdrant_query.confirmed(tx, model, …)     # of the others: what the snapshot shows

Qdrant may return deleted or replaced versions: PostgreSQL decides what is live. More is asked for than is needed, and
once more and deeper when too few hits are left. When Qdrant does not answer in time, PostgreSQL has all vectors: a collection
of moderate size is searched exactly, a larger one by its words alone. For some seconds after that Qdrant is not asked.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock.database import Session
from penstock.errors import JobFailure
from penstock.search.bm25.postings import split_key
from penstock.search.fusion import Ranking, in_order
from penstock.search.qdrant.client import Qdrant
from penstock.search.qdrant.sync import live_among, only_live
from penstock.search.query import Query
from penstock.search.snapshot import Snapshot
from penstock.telemetry import counter, log

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QuestionVectors = Mapping[str, "NDArray[np.float32]"]  # the question by model

MORE = 2  # times as many as are needed
DEEPER = 20
EXACT_UP_TO = 200_000  # chunks of all collections of a question that PostgreSQL searches without an index
REST = 5.0  # seconds without queries after one that was not answered

fallbacks = counter(
    "penstock_search_fallbacks",
    "Searches for which Qdrant did not answer in time: exact (PostgreSQL compared all vectors), words (by words alone)",
    ("by",),
)
resting: WeakKeyDictionary[Qdrant, tuple[float, str]] = WeakKeyDictionary()  # until when, and why


class TooFew(Exception):
    """Too few of the chunks found are live and pass the filters: ask for more."""


class QdrantQuery:
    def __init__(self, qdrant: Qdrant | None, query: Query, depth: int) -> None:
        self.depth = depth
        self.fallback = ""
        self._qdrant = qdrant
        self._query = query
        self._limit = MORE * depth
        self._found: dict[str, list[tuple[int, float]]] = {}
        self._why = ""  # Qdrant did not answer

    def _ids(self, model: str) -> list[int]:
        return [each.id for each in self._query.collections if each.model == model and each.index == "qdrant"]

    async def ask(self, asked: QuestionVectors) -> None:
        """Ask for the nearest chunks of all collections in Qdrant. Without an answer there is a fallback, not a failure."""
        for model, vector in asked.items():
            if ids := self._ids(model):
                await self._ask(model, vector, ids)

    async def ask_deeper(self, asked: QuestionVectors) -> None:
        self._limit = DEEPER * self.depth
        await self.ask(asked)

    async def _ask(self, model: str, vector: "NDArray[np.float32]", ids: list[int]) -> None:
        self._found.pop(model, None)
        if self._qdrant is None:
            self._why = "Qdrant is not configured here (qdrant.url)"
            return
        until, why = resting.get(self._qdrant, (0.0, ""))
        if time.monotonic() < until:
            self._why = why
            return
        try:
            self._found[model] = await self._qdrant.nearest(model, vector.tolist(), collections=ids, most=self._limit)
        except JobFailure as error:
            self._why = str(error).rstrip(".")
            resting[self._qdrant] = (time.monotonic() + REST, self._why)
            log.warning("a search goes on without Qdrant", error=str(error))

    def answered_here(self, model: str, snapshot: Snapshot, *, few: bool) -> list[int]:
        """The collections of a model that PostgreSQL answers for."""
        own = [each.id for each in self._query.collections if each.model == model and each.index != "qdrant"]
        others = self._ids(model)
        if few or not others:
            return own + others
        if model in self._found:
            return own
        chunks = sum(snapshot.statistics[each].chunks for each in others)
        if chunks > EXACT_UP_TO and self._query.mode != "vectors":
            self._fall_back("words", "the documents there were searched by words alone")
            return own
        self._fall_back("exact", "PostgreSQL compared all vectors instead")
        return own + others

    def _fall_back(self, by: str, what: str) -> None:
        fallbacks.labels(by).inc()
        self.fallback = f"{self._why}: {what}."

    async def confirmed(self, tx: Session, model: str, snapshot: Snapshot) -> Ranking | None:
        """The chunks that Qdrant found and that are live in this snapshot; None if Qdrant was not asked or did not answer."""
        import numpy as np

        found = self._found.get(model)
        if found is None:
            return None
        versions = sorted({split_key(key)[0] for key, _ in found})
        live = await live_among(tx, versions, self._ids(model))
        keys = np.array([key for key, _ in found], dtype=np.int64)
        shown = only_live(keys, live, snapshot.allowed)
        whole = len(found) < self._limit  # Qdrant had no more
        if shown.sum() < self.depth and not whole and self._limit < DEEPER * self.depth:
            raise TooFew
        scores = np.array([score for _, score in found], dtype=np.float64)
        ranking = in_order(keys[shown], scores[shown])
        return Ranking(ranking.keys[: self.depth], ranking.scores[: self.depth])
