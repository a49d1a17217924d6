"""The search in facts: by words and by meaning, and each with the passage that it was read in. The SQL is in finding.sql.

    found = await find_facts(database, models, Question("who repaired the turbine", [CollectionRef(1, "static", "english")]))

All statements of a question share one snapshot. By words it is PostgreSQL's full-text search, where one word of the question is
enough; by meaning the vectors beside the facts (search/likeness.py). The two rankings are fused by reciprocal ranks.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.database import Database, Session, statements
from penstock.errors import BadSetting, CannotStart
from penstock.knowledge.facts import ShownFact, read_facts
from penstock.search import CollectionRef
from penstock.search.likeness import Likeness
from penstock.search.rank import VECTORS_WEIGHT, WORDS_WEIGHT, Ranking, fuse, join
from penstock.telemetry import log

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.search.find import Opens

sql = statements(__file__)

DEPTH = 200  # facts of each ranking
LOOKED_AT = 3  # times as many are looked at: some may be of versions or extractions that are hidden
AROUND = 300  # characters of the page before and behind a quote
ENDS = ".!?。\n"


@dataclass(frozen=True)
class Question:
    """What is asked, where, and which part of the answer."""

    text: str
    collections: Sequence[CollectionRef]
    k: int = 10
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FactHit:
    """A fact that answers, and the sentences around its quote."""

    fact: ShownFact
    passage: str
    score: float

    def answer(self) -> dict[str, Any]:
        return self.fact.answer() | {"passage": self.passage, "score": round(self.score, 6)}


@dataclass(frozen=True, slots=True)
class FoundFacts:
    """One page of hits."""

    hits: Sequence[FactHit]
    more: bool
    took: float


async def find_facts(database: Database, models: "Opens", question: Question) -> FoundFacts:
    """The facts that answer best."""
    began = time.monotonic()
    hits: list[FactHit] = []
    more = False
    if question.collections and question.text.strip():
        numbers = [each.id for each in question.collections]
        names = await database.pool.repeat(lambda session: sql.models_of(session, collections=numbers))
        asked = await _embed(models, question.text, [row["embedder"] for row in names])
        async with _snapshot(database) as tx:
            ranking = await _rank(tx, question, asked)
            last = question.offset + question.k
            page = Ranking(ranking.keys[question.offset : last], ranking.scores[question.offset : last])
            hits, more = await _show(tx, page), len(ranking.keys) > last
    return FoundFacts(hits, more, time.monotonic() - began)


async def _embed(models: "Opens", text: str, names: Sequence[str]) -> "dict[str, NDArray[np.float32]]":
    """The question by each model that facts have. One that is not here any more is left out: words still find them."""
    vectors = {}
    for name in names:
        try:
            [vector] = await models.open(name).embed([text])
        except (BadSetting, CannotStart) as error:
            log.warning("facts are not searched by a model that is not here", model=name, error=str(error))
            continue
        if vector.any():
            vectors[name] = vector
    return vectors


@asynccontextmanager
async def _snapshot(database: Database) -> AsyncIterator[Session]:
    async with database.pool.transaction() as tx:
        await tx.execute(
            "set transaction isolation level repeatable read, read only; set local plan_cache_mode = force_custom_plan; "
            f"set local hnsw.iterative_scan = strict_order; set local hnsw.ef_search = {DEPTH}"
        )
        yield tx


async def _rank(tx: Session, question: Question, asked: "dict[str, NDArray[np.float32]]") -> Ranking:
    collections = [each.id for each in question.collections]
    words = await sql.by_words(
        tx,
        question=question.text,
        languages=[each.language for each in question.collections],
        collections=collections,
        most=LOOKED_AT * DEPTH,
    )
    rankings = [(_ranking([(row["id"], row["score"]) for row in words[:DEPTH]]), WORDS_WEIGHT)]
    near = []
    for model, vector in asked.items():
        found = await Likeness("facts", model).nearest(tx, collections, vector, LOOKED_AT * DEPTH)
        seen = {row["id"] for row in await sql.visible_among(tx, ids=[number for number, _ in found])}
        near.append(_ranking([(number, cosine) for number, cosine in found if number in seen][:DEPTH]))
    if near:
        rankings.append((join(near), VECTORS_WEIGHT))
    return fuse(rankings)


def _ranking(found: Sequence[tuple[int, float]]) -> Ranking:
    import numpy as np

    keys = np.fromiter((number for number, _ in found), np.int64, len(found))
    return Ranking(keys, np.fromiter((score for _, score in found), np.float64, len(found)))


async def _show(tx: Session, ranking: Ranking) -> list[FactHit]:
    rows = await sql.show_hits(tx, ids=ranking.keys.tolist(), around=AROUND)
    facts = await read_facts(tx, rows)
    scores = ranking.scores.tolist()
    return [
        FactHit(fact, _trim(row["before"], row["quote"], row["behind"]), scores[row["place"] - 1])
        for row, fact in zip(rows, facts, strict=True)
    ]


def _trim(before: str, quote: str, behind: str) -> str:
    """Whole sentences around the quote, or whole words where those are long."""
    if len(before) >= AROUND:
        start = min((place for end in ENDS if (place := before.find(end)) >= 0), default=before.find(" "))
        before = before[start + 1 :]
    if len(behind) >= AROUND:
        stop = max(max(behind.rfind(end) for end in ENDS) + 1, 0) or max(behind.rfind(" "), 0)
        behind = behind[:stop]
    return f"{before.lstrip()}{quote}{behind.rstrip()}"
