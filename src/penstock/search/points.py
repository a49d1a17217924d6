"""What PostgreSQL says of the points of another index: which versions must have some, which may, and their vectors.

A version *must* have its points when search sees it, or would if its document were restored. It *may* have some while it is
there and not cleared: it is being published, or will be removed by those whose task it is (documents/leaving.py). A point of
any other version is an orphan; numbers of versions are never used again, so that once an orphan is always one. The SQL is in
points.sql.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.database import Session, statements
from penstock.search.qdrant import Point
from penstock.search.vectors import VectorTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A version that must have points: one for each of its chunks."""

    version: int
    chunks: int
    collection: int
    tenant: str
    document: int
    name: str


@dataclass(frozen=True, slots=True)
class Run:
    """Chunks of a version that follow each other."""

    version: int
    first: int
    stop: int


async def list_wanted(
    session: Session, model: str, *, after: int, most: int, collection: int | None = None
) -> list[Wanted]:
    """Versions that must have points, by their numbers."""
    rows = await sql.list_wanted(session, model=model, after=after, most=most, collection=collection)
    return [Wanted(**row) for row in rows]


async def wanted_among(session: Session, model: str, versions: Sequence[int]) -> set[int]:
    """Those of these versions that must have points, at this moment."""
    rows = await sql.wanted_among(session, model=model, versions=list(versions))
    return {row["version"] for row in rows}


async def kept_among(session: Session, model: str, versions: Sequence[int]) -> set[int]:
    """Those of these versions that may have points, at this moment."""
    rows = await sql.kept_among(session, model=model, versions=list(versions))
    return {row["id"] for row in rows}


async def live_among(session: Session, versions: Sequence[int], collections: Sequence[int]) -> dict[int, int]:
    """The chunks of each of these versions that search sees, in these collections."""
    rows = await sql.live_among(session, versions=list(versions), collections=list(collections))
    return {row["version"]: row["chunks"] for row in rows}


async def read_points(
    session: Session, model: str, runs: Sequence[Run], *, collection: int, tenant: str
) -> list[Point]:
    """The points of some chunks, made of what PostgreSQL keeps."""
    rows = await VectorTable(model).statement("read_points")(
        session,
        versions=[run.version for run in runs],
        firsts=[run.first for run in runs],
        stops=[run.stop for run in runs],
        collection=collection,
    )
    return [Point(row["version"], row["ordinal"], row["collection"], tenant, row["vector"]) for row in rows]


async def dimensions_of(session: Session, model: str) -> int | None:
    """How many numbers the vectors of a model have here; None without any."""
    found: int | None = await VectorTable(model).statement("dimensions").value(session)
    return found


def runs_of(version: int, ordinals: Sequence[int], *, most: int) -> Iterator[Run]:
    """Ordinals, in order, as runs of at most so many."""
    start = previous = None
    for ordinal in ordinals:
        if start is None or previous is None:
            start = ordinal
        elif ordinal != previous + 1 or ordinal - start >= most:
            yield Run(version, start, previous + 1)
            start = ordinal
        previous = ordinal
    if start is not None and previous is not None:
        yield Run(version, start, previous + 1)


def only_live(keys: "NDArray[np.int64]", live: dict[int, int], allowed: Sequence[int] | None) -> "NDArray[np.bool_]":
    """Which of these chunks search may show."""
    import numpy as np

    from penstock.search.entries import split_key

    passed = None if allowed is None else set(allowed)
    return np.array(
        [
            ordinal < live.get(version, 0) and (passed is None or version in passed)
            for version, ordinal in map(split_key, keys.tolist())
        ],
        dtype=np.bool_,
    )
