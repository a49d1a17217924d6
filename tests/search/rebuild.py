"""The expected contents of the index, rebuilt from the texts of the live chunks in the simplest way."""

from collections import Counter
from dataclasses import dataclass, field
from math import log

from penstock.database import Session
from penstock.search import CollectionRef
from penstock.search.bm25.postings import chunk_key, unpack
from penstock.search.bm25.score import K1, B
from penstock.search.bm25.tokenizer import vocabulary

LIVE = """
select chunk.version_id, chunk.ordinal, chunk.heading, chunk.text
from penstock.documents as document join penstock.chunks as chunk on chunk.version_id = document.live_id
where document.collection_id = $1
"""
POSTINGS = """
select posting.term, posting.entries from penstock.postings as delta
cross join unnest(delta.terms, delta.entries) as posting(term, entries) where collection_id = $1
union all select term, entries from penstock.folded_postings where collection_id = $1
"""
HIDDEN = "select version_id from penstock.hidden_versions where collection_id = $1"
TALLIES = (
    "select coalesce(sum(chunks), 0)::int, coalesce(sum(words), 0)::int from penstock.tallies where collection_id = $1"
)


@dataclass
class State:
    """Where each term is, how often, in chunks of how many words; and the totals."""

    terms: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    chunks: int = 0
    words: int = 0

    def add(self, term: str, key: int, entry: tuple[int, int]) -> None:
        assert key not in self.terms.setdefault(term, {}), f"{term} is twice in chunk {key}"
        self.terms[term][key] = entry


async def rebuild(session: Session, collection: CollectionRef) -> State:
    state = State()
    for row in await session.fetch(LIVE, collection.id):
        text = f"{row['heading']}\n{row['text']}" if row["heading"] else row["text"]
        counts = Counter(word.term for word in vocabulary(collection.language).split(text))
        words = sum(counts.values())
        state.chunks, state.words = state.chunks + 1, state.words + words
        for term, count in counts.items():
            state.add(term, chunk_key(row["version_id"], row["ordinal"]), (count, words))
    return state


async def read_index(session: Session, collection: CollectionRef) -> State:
    hidden = {row[0] for row in await session.fetch(HIDDEN, collection.id)}
    chunks, words = await session.fetchrow(TALLIES, collection.id)
    state = State(chunks=chunks, words=words)
    for row in await session.fetch(POSTINGS, collection.id):
        for key, count, size in unpack(row["entries"]).tolist():
            if key >> 21 not in hidden:
                state.add(row["term"], key, (count, size))
    return state


def rank(state: State, terms: list[str]) -> list[tuple[int, float]]:
    """BM25 by the book: chunk keys and scores, the best first."""
    scores: dict[int, float] = {}
    average = state.words / state.chunks if state.words else 1
    for term in terms:
        found = state.terms.get(term, {})
        rarity = log(1 + (state.chunks - len(found) + 0.5) / (len(found) + 0.5))
        for key, (count, size) in found.items():
            gain = rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * size / average))
            scores[key] = scores.get(key, 0) + gain
    return sorted(scores.items(), key=lambda item: (-round(item[1], 9), item[0]))
