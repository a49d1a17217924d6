"""The index of chunks, and the search in it."""

from penstock.search.find import find
from penstock.search.folding import Foldable, drop_vector_index, drop_vector_indexes, fold, is_folded, needs_folding
from penstock.search.index import Entry, Index, Passage, searched_text
from penstock.search.postings import take_turn
from penstock.search.query import CollectionRef, Found, Hit, Neighbour, Query
from penstock.search.vectors import VectorTable, check_dimensions, prepare_model, vector_rows

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
    "VectorTable",
    "check_dimensions",
    "drop_vector_index",
    "drop_vector_indexes",
    "find",
    "fold",
    "is_folded",
    "needs_folding",
    "prepare_model",
    "searched_text",
    "take_turn",
    "vector_rows",
]
