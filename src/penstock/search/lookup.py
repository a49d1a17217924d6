"""The words of a question: their postings are read as packed bytes, and ranked by BM25 away from the connection.

Collections of one language are one text to BM25: rarity and length are those of all of them together. The SQL is in lookup.sql.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from penstock.database import Session, statements
from penstock.search.entries import bucket_of, only, unpack, versions_of, without
from penstock.search.moment import Moment
from penstock.search.query import CollectionRef, Query
from penstock.search.rank import Ranking, Statistics, in_order, join, rank_words
from penstock.search.words import vocabulary

sql = statements(__file__)

TERMS_MAX = 100  # different words of a question that are looked up
ENTRIES_MAX = 1_000_000  # entries that are read for a question; the rarest words come first
COMMON = 10_000  # entries of a word: fewer are read, however common it is


class Read(NamedTuple):
    """The postings of a question in the collections of one language, and what they are measured by."""

    postings: Sequence[bytes]
    statistics: Statistics


async def read_postings(tx: Session, query: Query, moment: Moment) -> list[Read]:
    """One after the other, on the one connection; a language has its own words."""
    found = []
    for language, collections in by_language(query).items():
        terms = vocabulary(language).ask(query.text)[:TERMS_MAX]
        statistics = moment.total(collections)
        rows = await sql.read_postings(
            tx,
            terms=terms,
            buckets=[bucket_of(term) for term in terms],
            collections=[collection.id for collection in collections],
            most=ENTRIES_MAX,
            common=max(COMMON, statistics.chunks // 2),
        )
        found.append(Read([row["entries"] for row in rows], statistics))
    return found


async def rank_postings(read: Sequence[Read], moment: Moment) -> Ranking:
    return await asyncio.to_thread(_rank, read, moment)


def _rank(read: Sequence[Read], moment: Moment) -> Ranking:
    hidden = versions_of(moment.hidden)
    rankings = []
    for each in read:
        live = [without(unpack(entries), hidden) for entries in each.postings]
        keys, scores = rank_words(live, each.statistics)
        if moment.allowed is not None:  # after the scores: what is rare does not depend on a filter
            passes = only(keys, versions_of(moment.allowed))
            keys, scores = keys[passes], scores[passes]
        rankings.append(in_order(keys, scores))
    return join(rankings)


def by_language(query: Query) -> dict[str, list[CollectionRef]]:
    groups: dict[str, list[CollectionRef]] = {}
    for collection in query.collections:
        groups.setdefault(collection.language, []).append(collection)
    return groups
