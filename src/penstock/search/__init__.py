"""The index of chunks, and the search in it."""

from penstock.search.find import find
from penstock.search.folding import Foldable, fold, needs_folding
from penstock.search.index import Entry, Index, Passage
from penstock.search.query import CollectionRef, Found, Hit, Neighbour, Query
from penstock.search.vectors import prepare_model

__all__ = [
    "CollectionRef",
    "Entry",
    "Foldable",
    "Found",
    "Hit",
    "Index",
    "Neighbour",
    "Passage",
    "Query",
    "find",
    "fold",
    "needs_folding",
    "prepare_model",
]
