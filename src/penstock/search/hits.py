"""Hits as they are shown: text, place, document, highlighted words, neighbouring chunks. Checks the phrases of a question."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields

from penstock.database import Session, statements
from penstock.search.bm25.postings import split_key
from penstock.search.bm25.tokenizer import Vocabulary, vocabulary
from penstock.search.fusion import Ranking
from penstock.search.query import Hit, Neighbour, Query

sql = statements(__file__)

PHRASE = re.compile(r'"([^"]+)"')
OF_ROW = {each.name for each in fields(Hit)} - {"score", "highlights", "neighbours"}
VERIFIED = 300  # chunks of a ranking that are read to see whether a phrase is in them


async def show_hits(tx: Session, ranking: Ranking, query: Query) -> list[Hit]:
    """The chunks of a ranking, in its order."""
    versions, ordinals = _places(ranking)
    rows = await sql.show_chunks(tx, versions=versions, ordinals=ordinals)
    around = await _neighbours(tx, versions, ordinals, query.neighbours)
    languages = {collection.id: collection.language for collection in query.collections}
    scores = ranking.scores.tolist()
    hits = []
    for row in rows:
        words = vocabulary(languages[row["collection_id"]])
        hits.append(
            Hit(
                **{name: row[name] for name in OF_ROW},
                score=scores[row["place"] - 1],
                highlights=highlight(row["text"], query.text, words),
                neighbours=around.get((row["version"], row["chunk"]), []),
            )
        )
    return hits


async def _neighbours(
    tx: Session, versions: list[int], ordinals: list[int], reach: int
) -> dict[tuple[int, int], list[Neighbour]]:
    found: dict[tuple[int, int], list[Neighbour]] = defaultdict(list)
    if reach:
        for row in await sql.neighbours(tx, versions=versions, ordinals=ordinals, reach=reach):
            neighbour = Neighbour(row["ordinal"], row["page"], row["heading"], row["text"])
            found[row["version_id"], row["of"]].append(neighbour)
    return found


def highlight(text: str, question: str, words: Vocabulary) -> list[tuple[int, int]]:
    """The places of the question's meaningful words in the text, in order and without overlap."""
    found: list[tuple[int, int]] = []
    for start, stop in words.places(text, words.meaningful(question)):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return found


# -- phrases ------------------------------------------------------------------------------------------------------------


def phrases_of(text: str) -> list[str]:
    return [phrase for phrase in PHRASE.findall(text) if phrase.strip()]


async def with_phrases(tx: Session, ranking: Ranking, phrases: Sequence[str], query: Query) -> Ranking:
    """The best chunks that have all phrases word for word, endings aside."""
    head = Ranking(ranking.keys[:VERIFIED], ranking.scores[:VERIFIED])
    versions, ordinals = _places(head)
    languages = {collection.id: collection.language for collection in query.collections}
    kept = []
    for row in await sql.show_chunks(tx, versions=versions, ordinals=ordinals):
        words = vocabulary(languages[row["collection_id"]])
        terms = [word.term for word in words.split(row["text"])]
        if all(_contains(terms, [word.term for word in words.split(phrase)]) for phrase in phrases):
            kept.append(row["place"] - 1)
    return Ranking(head.keys[kept], head.scores[kept])


def _contains(terms: list[str], phrase: list[str]) -> bool:
    size = len(phrase)
    return any(terms[start : start + size] == phrase for start in range(len(terms) - size + 1))


def _places(ranking: Ranking) -> tuple[list[int], list[int]]:
    places = [split_key(key) for key in ranking.keys.tolist()]
    return [version for version, _ in places], [ordinal for _, ordinal in places]
