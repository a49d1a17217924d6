"""Search by words: tokenizer, postings, and their BM25 scores."""

from penstock.search.bm25.postings import BUCKETS, remove_postings, split_key, take_turn
