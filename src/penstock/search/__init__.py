"""The index of chunks, and the search in it."""

from penstock.search.bm25.postings import take_turn
from penstock.search.compaction import compact, drop_vector_index, drop_vector_indexes, is_compacted, needs_compaction
from penstock.search.fusion import Ranking
from penstock.search.index import Index, IndexBatch, Passage, searched_text
from penstock.search.query import CollectionRef, Found, Hit, Query
from penstock.search.removal import REST, BulkRemoval, count_rows
from penstock.search.row_vectors import RowSearch, RowVectors, build_missing_indexes, models_of, written
from penstock.search.search import ModelOpener, embed_question, find, snapshot_transaction
from penstock.search.vectors import VectorTable, check_dimensions, made_models, prepare_model, vector_rows
