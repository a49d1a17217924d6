"""Per-query snapshot: collection statistics, hidden versions, and the versions that pass the filters."""

import json
from dataclasses import dataclass, field

from penstock.database import Session, statements
from penstock.search.query import CollectionRef, Query

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of the live chunks of some collections."""

    chunks: int
    words: int

    @property
    def average(self) -> float:
        return self.words / self.chunks if self.chunks and self.words else 1.0


@dataclass
class Snapshot:
    """Statistics and filters that are the same for all statements of a question."""

    statistics: dict[int, Statistics] = field(default_factory=dict)  # by collection
    hidden: list[int] = field(default_factory=list)  # versions
    vector_schema: str = "public"
    allowed: list[int] | None = None  # versions that pass the filters; None without a filter
    allowed_chunks: int = 0

    def total(self, collections: list[CollectionRef]) -> Statistics:
        parts = [self.statistics[collection.id] for collection in collections]
        return Statistics(sum(part.chunks for part in parts), sum(part.words for part in parts))


async def take_snapshot(tx: Session, query: Query) -> Snapshot:
    ids = [collection.id for collection in query.collections]
    snapshot = Snapshot()
    for row in await sql.read_statistics(tx, collections=ids):
        snapshot.statistics[row["id"]] = Statistics(row["chunks"], row["words"])
        snapshot.hidden += row["hidden"]
        snapshot.vector_schema = row["vector_schema"] or "public"
    if query.filtered:
        left = await sql.allowed_versions.first(
            tx,
            collections=ids,
            metadata=json.dumps(query.metadata) if query.metadata else None,
            media_types=list(query.media_types) or None,
            since=query.since,
            until=query.until,
        )
        snapshot.allowed, snapshot.allowed_chunks = (left["versions"], left["chunks"]) if left else ([], 0)
    return snapshot
