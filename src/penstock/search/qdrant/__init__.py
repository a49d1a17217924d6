"""Qdrant, for collections whose vectors are searched there: its client, questions to it, and the comparison with PostgreSQL."""

from penstock.search.qdrant.client import Qdrant, no_qdrant, open_qdrant
from penstock.search.qdrant.sync import BEFORE_ALL, ChunkRange, DiffPage, QdrantDiff, dimensions_of, read_points
