"""PostgreSQL and Qdrant side by side, page by page in the order of versions: what is missing there, stale, or nobody's.

    comparing = Comparing(database, qdrant, "static")
    page = await comparing.look(BEFORE_ALL)      # both sides, up to page.upto
    await comparing.mend(page)                   # PostgreSQL is right

PostgreSQL is read first: what must have points by then has had them counted before, so what Qdrant does not show later was
lost. What Qdrant shows beyond that is asked about again right before it is removed. Who writes a point asks once more behind
it: a version may have been removed meanwhile. No connection is held during a call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock.database import Database
from penstock.errors import Transient
from penstock.search.entries import chunk_key, split_key
from penstock.search.points import (
    Run,
    Wanted,
    dimensions_of,
    kept_among,
    list_wanted,
    read_points,
    runs_of,
    wanted_among,
)
from penstock.search.qdrant import Point, Qdrant, Seen

VERSIONS = 500  # of PostgreSQL in a page
POINTS = 2_000  # of Qdrant in a call
FOREIGN = 50_000  # points with numbers that are none of ours, in a page
BEFORE_ALL = -1  # behind which all versions are, and points that look like those of version 0
READ = 1_000  # vectors that are read from PostgreSQL in one statement


@dataclass(frozen=True, slots=True)
class Lacking:
    """A version whose points are not as they must be."""

    wanted: Wanted
    missing: Sequence[int]  # ordinals
    stale: Sequence[int]

    @property
    def ordinals(self) -> list[int]:
        return sorted({*self.missing, *self.stale})


@dataclass(slots=True)
class Page:
    """What a look has found, up to and with version `upto`; None: it was the last one."""

    upto: int | None
    versions: int = 0
    chunks: int = 0
    lacking: list[Lacking] = field(default_factory=list)
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


class Comparing:
    """The points of one model; with a collection, only those."""

    def __init__(self, database: Database, qdrant: Qdrant, model: str, collection: int | None = None) -> None:
        self._database = database
        self._qdrant = qdrant
        self._model = model
        self._collection = collection

    async def look(self, after: int) -> Page:
        """The versions behind `after`, on both sides."""
        list_page = partial(list_wanted, model=self._model, after=after, most=VERSIONS, collection=self._collection)
        wanted = await self._database.pool.repeat(list_page)
        seen, end = await self._scroll(after)
        ends = [end, wanted[-1].version if len(wanted) == VERSIONS else None]
        upto = min((each for each in ends if each is not None), default=None)
        page = Page(upto)
        there: dict[int, dict[int, Seen]] = {}
        for each in seen:
            if isinstance(each.key, str):
                if upto is None:
                    page.orphans.append(each.key)
                continue
            version, ordinal = split_key(each.key)
            if upto is None or version <= upto:
                there.setdefault(version, {})[ordinal] = each
        self._compare(page, [each for each in wanted if upto is None or each.version <= upto], there)
        await self._ask_about(page, there)
        return page

    async def _scroll(self, after: int) -> tuple[list[Seen], int | None]:
        """Points behind a version, of whole versions; and the last of those, None at the end."""
        seen: list[Seen] = []
        start: int | str = chunk_key(after + 1, 0)
        while True:
            rows, following = await self._qdrant.scroll(
                self._model, start=start, most=POINTS, collection=self._collection
            )
            seen += rows
            if following is None or (isinstance(following, str) and len(seen) >= FOREIGN):
                return seen, None
            if isinstance(following, int) and isinstance(seen[0].key, int):
                behind = split_key(following)[0]
                if behind > split_key(seen[0].key)[0]:
                    return [each for each in seen if isinstance(each.key, int) and split_key(each.key)[0] < behind], (
                        behind - 1
                    )
            start = following

    def _compare(self, page: Page, wanted: Sequence[Wanted], there: dict[int, dict[int, Seen]]) -> None:
        """What must be there; it leaves in `there` what nobody has asked for."""
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
                page.lacking.append(Lacking(each, missing, stale))

    async def _ask_about(self, page: Page, there: dict[int, dict[int, Seen]]) -> None:
        """Of a version that search does not see, PostgreSQL says whether somebody is at work on it."""
        if there:
            ask = partial(kept_among, model=self._model, versions=sorted(there))
            kept = await self._database.pool.repeat(ask)
            page.orphans += [
                chunk_key(version, ordinal)
                for version, points in sorted(there.items())
                if version not in kept
                for ordinal in sorted(points)
            ]

    # -- putting it right ---------------------------------------------------------------------------------------------

    async def mend(self, page: Page) -> None:
        """Write what is missing or stale, remove what is nobody's; each is asked about once more right before."""
        if page.lacking:
            await self._write(page.lacking)
        if page.orphans:
            await self._remove(page)

    async def _write(self, lacking: Sequence[Lacking]) -> None:
        versions = [each.wanted.version for each in lacking]
        repeat = self._database.pool.repeat
        still = await repeat(partial(wanted_among, model=self._model, versions=versions))
        dimensions = await repeat(partial(dimensions_of, model=self._model))
        if dimensions is None:
            raise Transient(f"There are no vectors of the model {self._model} in PostgreSQL.")
        await self._qdrant.prepare(self._model, dimensions)
        for each in lacking:
            if each.wanted.version in still:
                for runs in _in_reads(runs_of(each.wanted.version, each.ordinals, most=READ)):
                    await self._qdrant.upsert(self._model, await self.read(each.wanted, runs))
        kept = await repeat(partial(kept_among, model=self._model, versions=versions))
        if gone := sorted(still - kept):  # removed while we wrote
            await self._qdrant.delete_versions(self._model, gone)

    async def read(self, wanted: Wanted, runs: Sequence[Run]) -> list[Point]:
        """Points of a version, as PostgreSQL has them."""
        read = partial(read_points, model=self._model, runs=runs, collection=wanted.collection, tenant=wanted.tenant)
        return await self._database.pool.repeat(read)

    async def _remove(self, page: Page) -> None:
        """A point of a version that search sees is here because it is behind its last chunk, which does not change."""
        versions, repeat = page.orphaned_versions, self._database.pool.repeat
        kept = await repeat(partial(kept_among, model=self._model, versions=versions))
        wanted = await repeat(partial(wanted_among, model=self._model, versions=versions))
        at_work = kept - wanted
        doomed = [key for key in page.orphans if isinstance(key, str) or split_key(key)[0] not in at_work]
        await self._qdrant.delete_points(self._model, doomed)


def _in_reads(runs: Iterator[Run]) -> Iterator[list[Run]]:
    """Runs in groups of at most so many chunks."""
    group: list[Run] = []
    size = 0
    for run in runs:
        if group and size + run.stop - run.first > READ:
            yield group
            group, size = [], 0
        group.append(run)
        size += run.stop - run.first
    if group:
        yield group
