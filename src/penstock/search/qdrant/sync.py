"""The comparison of PostgreSQL and Qdrant, page by page in the order of versions: vectors that are missing, stale or orphaned.

    diff = QdrantDiff(database, qdrant, "static")
    page = await diff.compare(BEFORE_ALL)        # both sides, up to page.upto
    await diff.fix(page)                         # PostgreSQL is right

PostgreSQL is read first: a version that is wanted by then was counted in Qdrant before, so a vector that is missing later was
lost. A vector that is not wanted is checked again right before it is removed. After writing vectors, PostgreSQL is asked
again: the version may have been deleted concurrently. No connection is held during a call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.database import Database, Session, statements
from penstock.errors import Transient
from penstock.search.bm25.postings import chunk_key, split_key
from penstock.search.qdrant.client import Point, Qdrant, StoredPoint
from penstock.search.vectors import VectorTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

VERSIONS = 500  # of PostgreSQL in a page
POINTS = 2_000  # of Qdrant in a call
FOREIGN = 50_000  # points with foreign ids, in a page
BEFORE_ALL = -1  # before the first version, also before points with keys of version 0
READ = 1_000  # vectors that are read from PostgreSQL in one statement

# -- the side of PostgreSQL ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WantedVersion:
    """A version that must have vectors in Qdrant: one for each of its chunks."""

    version: int
    chunks: int
    collection: int
    tenant: str
    document: int
    name: str


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """Chunks of a version that follow each other."""

    version: int
    first: int
    stop: int


async def list_wanted(
    session: Session, model: str, *, after: int, most: int, collection: int | None = None
) -> list[WantedVersion]:
    """Versions that must have vectors in Qdrant, by id."""
    rows = await sql.list_wanted(session, model=model, after=after, most=most, collection=collection)
    return [WantedVersion(**row) for row in rows]


async def wanted_among(session: Session, model: str, versions: Sequence[int]) -> set[int]:
    """Those of these versions that must have vectors in Qdrant now."""
    rows = await sql.wanted_among(session, model=model, versions=list(versions))
    return {row["version"] for row in rows}


async def kept_among(session: Session, model: str, versions: Sequence[int]) -> set[int]:
    """Those of these versions that may have vectors in Qdrant now."""
    rows = await sql.kept_among(session, model=model, versions=list(versions))
    return {row["id"] for row in rows}


async def live_among(session: Session, versions: Sequence[int], collections: Sequence[int]) -> dict[int, int]:
    """The number of chunks of each of these versions that is live in these collections."""
    rows = await sql.live_among(session, versions=list(versions), collections=list(collections))
    return {row["version"]: row["chunks"] for row in rows}


async def read_points(
    session: Session, model: str, runs: Sequence[ChunkRange], *, collection: int, tenant: str
) -> list[Point]:
    """The points of some chunks, from the vectors in PostgreSQL."""
    rows = await VectorTable(model).statement("read_points")(
        session,
        versions=[run.version for run in runs],
        firsts=[run.first for run in runs],
        stops=[run.stop for run in runs],
        collection=collection,
    )
    return [Point(row["version"], row["ordinal"], row["collection"], tenant, row["vector"]) for row in rows]


async def dimensions_of(session: Session, model: str) -> int | None:
    """The dimensions of a model's vectors in PostgreSQL; None without any."""
    found: int | None = await VectorTable(model).statement("dimensions").value(session)
    return found


def runs_of(version: int, ordinals: Sequence[int], *, most: int) -> Iterator[ChunkRange]:
    """Sorted ordinals as ranges of at most `most`."""
    start = previous = None
    for ordinal in ordinals:
        if start is None or previous is None:
            start = ordinal
        elif ordinal != previous + 1 or ordinal - start >= most:
            yield ChunkRange(version, start, previous + 1)
            start = ordinal
        previous = ordinal
    if start is not None and previous is not None:
        yield ChunkRange(version, start, previous + 1)


def only_live(keys: "NDArray[np.int64]", live: dict[int, int], allowed: Sequence[int] | None) -> "NDArray[np.bool_]":
    """A mask of the chunks that are live and pass the filters."""
    import numpy as np

    passed = None if allowed is None else set(allowed)
    return np.array(
        [
            ordinal < live.get(version, 0) and (passed is None or version in passed)
            for version, ordinal in map(split_key, keys.tolist())
        ],
        dtype=np.bool_,
    )


# -- both sides ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A version whose vectors in Qdrant are missing or stale."""

    wanted: WantedVersion
    missing: Sequence[int]  # ordinals
    stale: Sequence[int]

    @property
    def ordinals(self) -> list[int]:
        return sorted({*self.missing, *self.stale})


@dataclass(slots=True)
class DiffPage:
    """The differences up to and including version `upto`, which is None on the last page."""

    upto: int | None
    versions: int = 0
    chunks: int = 0
    lacking: list[Discrepancy] = field(default_factory=list)
    orphans: list[int | str] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return sum(len(each.missing) for each in self.lacking)

    @property
    def stale(self) -> int:
        return sum(len(each.stale) for each in self.lacking)

    @property
    def agrees(self) -> bool:
        return not self.lacking and not self.orphans

    @property
    def orphaned_versions(self) -> list[int]:
        return sorted({split_key(key)[0] for key in self.orphans if isinstance(key, int)})


class QdrantDiff:
    """The comparison of one model's vectors, of all collections or of one."""

    def __init__(self, database: Database, qdrant: Qdrant, model: str, collection: int | None = None) -> None:
        self._database = database
        self._qdrant = qdrant
        self._model = model
        self._collection = collection

    async def compare(self, after: int) -> DiffPage:
        """Compare a page of versions after `after`."""
        wanted = await self._database.pool.repeat(
            list_wanted, model=self._model, after=after, most=VERSIONS, collection=self._collection
        )
        seen, end = await self._scroll(after)
        ends = [end, wanted[-1].version if len(wanted) == VERSIONS else None]
        upto = min((each for each in ends if each is not None), default=None)
        page = DiffPage(upto)
        there: dict[int, dict[int, StoredPoint]] = {}
        for each in seen:
            if isinstance(each.key, str):
                if upto is None:
                    page.orphans.append(each.key)
                continue
            version, ordinal = split_key(each.key)
            if upto is None or version <= upto:
                there.setdefault(version, {})[ordinal] = each
        self._compare_page(page, [each for each in wanted if upto is None or each.version <= upto], there)
        await self._ask_about(page, there)
        return page

    async def _scroll(self, after: int) -> tuple[list[StoredPoint], int | None]:
        """Points after a version, of whole versions; and the last of those versions, None at the end."""
        seen: list[StoredPoint] = []
        start: int | str = chunk_key(after + 1, 0)
        while True:
            rows, following = await self._qdrant.scroll(
                self._model, start=start, most=POINTS, collection=self._collection
            )
            seen += rows
            if following is None or (isinstance(following, str) and len(seen) >= FOREIGN):
                return seen, None
            if isinstance(following, int) and isinstance(seen[0].key, int):
                next_version = split_key(following)[0]
                if next_version > split_key(seen[0].key)[0]:
                    return [
                        each for each in seen if isinstance(each.key, int) and split_key(each.key)[0] < next_version
                    ], (next_version - 1)
            start = following

    def _compare_page(
        self, page: DiffPage, wanted: Sequence[WantedVersion], there: dict[int, dict[int, StoredPoint]]
    ) -> None:
        """Compare the wanted versions, and leave the others in `there`."""
        for each in wanted:
            points = there.pop(each.version, {})
            page.versions += 1
            page.chunks += each.chunks
            missing = [ordinal for ordinal in range(each.chunks) if ordinal not in points]
            stale = [
                ordinal
                for ordinal, seen in points.items()
                if ordinal < each.chunks
                and seen.payload != Point(each.version, ordinal, each.collection, each.tenant, []).payload
            ]
            page.orphans += [chunk_key(each.version, ordinal) for ordinal in sorted(points) if ordinal >= each.chunks]
            if missing or stale:
                page.lacking.append(Discrepancy(each, missing, stale))

    async def _ask_about(self, page: DiffPage, there: dict[int, dict[int, StoredPoint]]) -> None:
        """Find the orphans among the versions that are not wanted: those that no job is about to publish."""
        if there:
            kept = await self._database.pool.repeat(kept_among, model=self._model, versions=sorted(there))
            page.orphans += [
                chunk_key(version, ordinal)
                for version, points in sorted(there.items())
                if version not in kept
                for ordinal in sorted(points)
            ]

    # -- repair ----------------------------------------------------------------------------------------------

    async def fix(self, page: DiffPage) -> None:
        """Write what is missing or stale, and remove orphans. PostgreSQL is asked again right before each."""
        if page.lacking:
            await self._write(page.lacking)
        if page.orphans:
            await self._remove(page)

    async def _write(self, lacking: Sequence[Discrepancy]) -> None:
        versions = [each.wanted.version for each in lacking]
        repeat = self._database.pool.repeat
        still = await repeat(wanted_among, model=self._model, versions=versions)
        dimensions = await repeat(dimensions_of, model=self._model)
        if dimensions is None:
            raise Transient(f"PostgreSQL has no vectors of the model {self._model}.")
        await self._qdrant.prepare(self._model, dimensions)
        for each in lacking:
            if each.wanted.version in still:
                for runs in _in_reads(runs_of(each.wanted.version, each.ordinals, most=READ)):
                    await self._qdrant.upsert(self._model, await self.read(each.wanted, runs))
        kept = await repeat(kept_among, model=self._model, versions=versions)
        if gone := sorted(still - kept):  # removed during the writes
            await self._qdrant.delete_versions(self._model, gone)

    async def read(self, wanted: WantedVersion, runs: Sequence[ChunkRange]) -> list[Point]:
        """Points of a version, from PostgreSQL."""
        return await self._database.pool.repeat(
            read_points, model=self._model, runs=runs, collection=wanted.collection, tenant=wanted.tenant
        )

    async def _remove(self, page: DiffPage) -> None:
        """Remove orphans. An orphan of a wanted version stands after its last chunk, whose position does not change."""
        versions, repeat = page.orphaned_versions, self._database.pool.repeat
        kept = await repeat(kept_among, model=self._model, versions=versions)
        wanted = await repeat(wanted_among, model=self._model, versions=versions)
        at_work = kept - wanted
        doomed = [key for key in page.orphans if isinstance(key, str) or split_key(key)[0] not in at_work]
        await self._qdrant.delete_points(self._model, doomed)


def _in_reads(runs: Iterator[ChunkRange]) -> Iterator[list[ChunkRange]]:
    """Ranges in groups of at most READ chunks."""
    group: list[ChunkRange] = []
    size = 0
    for run in runs:
        if group and size + run.stop - run.first > READ:
            yield group
            group, size = [], 0
        group.append(run)
        size += run.stop - run.first
    if group:
        yield group
