"""What holds for a whole question: how much there is, what is hidden, what the filters leave. The SQL is in moment.sql."""

import json
from dataclasses import dataclass, field

from penstock.database import Session, statements
from penstock.search.query import CollectionRef, Query
from penstock.search.rank import Statistics

sql = statements(__file__)


@dataclass
class Moment:
    """Facts of the question's snapshot."""

    statistics: dict[int, Statistics] = field(default_factory=dict)  # by collection
    hidden: list[int] = field(default_factory=list)  # versions
    vector_schema: str = "public"
    allowed: list[int] | None = None  # versions that pass the filters; None without a filter
    allowed_chunks: int = 0

    def total(self, collections: list[CollectionRef]) -> Statistics:
        parts = [self.statistics[collection.id] for collection in collections]
        return Statistics(sum(part.chunks for part in parts), sum(part.words for part in parts))


async def look_around(tx: Session, query: Query) -> Moment:
    ids = [collection.id for collection in query.collections]
    moment = Moment()
    for row in await sql.look_around(tx, collections=ids):
        moment.statistics[row["id"]] = Statistics(row["chunks"], row["words"])
        moment.hidden += row["hidden"]
        moment.vector_schema = row["vector_schema"] or "public"
    if query.filtered:
        left = await sql.allowed_versions.first(
            tx,
            collections=ids,
            metadata=json.dumps(query.metadata) if query.metadata else None,
            media_types=list(query.media_types) or None,
            since=query.since,
            until=query.until,
        )
        moment.allowed, moment.allowed_chunks = (left["versions"], left["chunks"]) if left else ([], 0)
    return moment
