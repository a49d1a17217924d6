"""The jobs that migrate a collection to another model or index: build it next to the present one, switch, remove the old one.

A job goes over the live versions until a whole round finds nothing missing; what is there already is skipped, so that an
interrupted job goes on where it was. Pages of vectors are read, embedded and written concurrently. Each write is fenced,
holds the turn of the collection's models, and takes the turn of its index: a version that is live then cannot be cleaned up
before the commit. The last transaction is the switch and the end of the job. The rules of the switch are in
documents/migration.py.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock import documents
from penstock.engine import STEP, Context, Penstock, reach
from penstock.errors import RateLimited, Transient
from penstock.models import Models
from penstock.pipelines.embedding import Embedding
from penstock.pipelines.qdrant import LIMIT
from penstock.search import VectorTable, compact, drop_vector_index, is_compacted, searched_text, take_turn, vector_rows
from penstock.search.qdrant import BEFORE_ALL, Qdrant, QdrantDiff, dimensions_of, no_qdrant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAGE = 2_000  # chunks that are embedded and written together
REMOTE_PAGE = 256  # of a remote model: a call is expensive, and holds a permit for as long as it takes
DOCUMENTS = 500  # whose vectors are counted in one statement
BATCH = 5_000  # old vectors that are removed in one transaction
ROUNDS = 3  # without anything to do, and still not complete
BUSY = 30.0  # seconds until a concurrent merge may be over


@dataclass
class Goal:
    """A collection and the model that it is changing to, with the progress."""

    collection: int
    model: str
    turn: int
    total: int = 0
    done: int = 0
    folded: bool = False  # a large collection without an index yet: its vectors go where the index will be
    short: str = ""  # a document whose vectors are not complete, in words

    @property
    def table(self) -> VectorTable:
        return VectorTable(self.model)


@dataclass(frozen=True)
class Texts:
    """Chunks without a vector."""

    versions: "NDArray[np.int64]"
    ordinals: "NDArray[np.int32]"
    texts: list[str]

    @classmethod
    def of(cls, rows: list[Any]) -> "Texts":
        import numpy as np

        return cls(
            np.array([row["version"] for row in rows], dtype=np.int64),
            np.array([row["ordinal"] for row in rows], dtype=np.int32),
            [searched_text(row["heading"], row["text"]) for row in rows],
        )


class ReembedCollection:
    def __init__(self, app: Penstock, models: Models) -> None:
        self._app = app
        self._embedding = Embedding(app, models)

    async def reembed_collection(self, ctx: Context, collection: int, model: str, turn: int) -> Any:
        """Make all vectors of a collection by its next model, then switch to it."""
        goal = Goal(collection, model, turn)
        try:
            async with self._app.database.pool.transaction() as tx:
                await documents.hold_turn(tx, collection, turn)
            await self._embedding.prepare(model)
            await self._complete(ctx, goal)
        except documents.ModelChangeSuperseded:
            return {"superseded": True}
        return None

    async def forget_vectors(self, ctx: Context, collection: int, model: str) -> int:
        """Remove the vectors of a collection by a model that it does not use; how many."""
        database, table = self._app.database, VectorTable(model)
        if not await database.pool.repeat(table.exists):
            return 0
        # First: an index would be cleaned up after the vectors one by one.
        if not await drop_vector_index(
            database, collection, model, lambda session: documents.is_wanted(session, collection, model)
        ):
            raise RateLimited("The collection is being folded: its old index is dropped after that.", retry_after=BUSY)
        removed = 0
        while True:
            async with ctx.write() as tx:
                if await documents.is_wanted(tx, collection, model):
                    return removed
                await take_turn(tx, collection)
                batch = await table.remove_collection(tx, collection, BATCH)
                reach(f"{STEP}forget-vectors", tx)
            if not batch:
                return removed
            removed += batch
            await ctx.progress(removed, note="vectors removed")

    async def _complete(self, ctx: Context, goal: Goal) -> None:
        """Rounds over all live versions, until one finds nothing to do: that is the check. Then the index, then the switch."""
        idle = 0
        while True:
            late = await self._app.database.pool.repeat(documents.list_late, goal.collection)
            if await self._fill(ctx, goal):
                idle = 0
                continue
            if goal.short:  # replaced and cleared during the round, or wrong
                idle += 1
                if idle == ROUNDS:
                    raise Transient(f"{goal.short}: see `penstock doctor`. The present model stays.")
                continue
            await self._fold(ctx, goal)
            ctx.enter("reembed-switch")
            try:
                async with ctx.finish() as tx:
                    await documents.switch_model(tx, self._app, goal.collection, goal.turn, late)
                    reach(f"{STEP}reembed-switched", tx)
            except documents.NotComplete:
                continue
            return

    async def _fold(self, ctx: Context, goal: Goal) -> None:
        database = self._app.database
        if await is_compacted(database, goal.collection, goal.model):
            return
        ctx.enter("reembed-fold")
        await compact(database, goal.collection, goal.model)
        if not await is_compacted(database, goal.collection, goal.model):
            raise RateLimited(
                "Another job merges vectors of the collection: its new index is built after that.", retry_after=BUSY
            )

    # -- one round ----------------------------------------------------------------------------------------------------

    async def _fill(self, ctx: Context, goal: Goal) -> int:
        """Make the vectors that are missing; how many. The next page is read and the last one written meanwhile."""
        database = self._app.database
        goal.total = await database.pool.repeat(documents.count_live_chunks, goal.collection)
        large = goal.total > database.settings.search.exact_up_to
        goal.folded = large and not await is_compacted(database, goal.collection, goal.model)
        goal.done, goal.short = 0, ""
        made = 0
        reading: asyncio.Task[Texts | None] | None = None
        writing: asyncio.Task[None] | None = None
        async with aclosing(self._missing(ctx, goal)) as pages:

            async def following() -> Texts | None:
                return await anext(pages, None)

            try:
                page = await following()
                while page is not None:
                    reading = asyncio.create_task(following(), name="reembed-read")
                    ctx.enter("reembed-embed")
                    vectors = await self._embedding.vectors(ctx, goal.model, page.texts)
                    if writing is not None:
                        await writing
                    writing = asyncio.create_task(self._write(ctx, goal, page, vectors), name="reembed-write")
                    made += len(page.texts)
                    page = await reading
                if writing is not None:
                    await writing
            finally:
                await _end(reading, writing)
        await ctx.progress(goal.done, max(goal.total, goal.done), "chunks")
        return made

    async def _missing(self, ctx: Context, goal: Goal) -> AsyncGenerator[Texts, None]:
        """Pages of chunks that are live and have no vector, by the ids of their documents."""
        repeat = self._app.database.pool.repeat
        most = REMOTE_PAGE if self._embedding.is_remote(goal.model) else PAGE
        after, size = 0, 0
        spans: list[documents.ChunkSpan] = []
        while found := await repeat(documents.list_live, collection=goal.collection, after=after, most=DOCUMENTS):
            after = found[-1].document
            numbers = [each.version for each in found]
            counts = await repeat(goal.table.counts, collection=goal.collection, versions=numbers)
            for each in found:
                there = counts.get(each.version, 0)
                goal.done += there
                for first, stop in await self._gaps(goal, each, there):
                    start = first
                    while start < stop:
                        end = min(stop, start + most - size)
                        spans.append(documents.ChunkSpan(each.version, start, end))
                        size, start = size + end - start, end
                        if size == most:
                            yield await self._read(spans)
                            spans, size = [], 0
            await ctx.progress(goal.done, max(goal.total, goal.done), "chunks")
        if spans:
            yield await self._read(spans)

    async def _gaps(self, goal: Goal, live: documents.LiveVersion, there: int) -> list[tuple[int, int]]:
        """The ranges of chunks without a vector."""
        if there == live.chunks:
            return []
        goal.short = (
            f"Document {live.document} has {live.chunks:,} chunks and {there:,} vectors of the model {goal.model}"
        )
        if there == 0:
            return [(0, live.chunks)]
        ordinals = await self._app.database.pool.repeat(goal.table.ordinals, goal.collection, live.version)
        edges = [-1, *ordinals, live.chunks]
        return [(before + 1, behind) for before, behind in pairwise(edges) if behind > before + 1]

    async def _read(self, spans: list[documents.ChunkSpan]) -> Texts:
        return Texts.of(await self._app.database.pool.repeat(documents.read_spans, spans))

    async def _write(self, ctx: Context, goal: Goal, page: Texts, vectors: "NDArray[np.float32]") -> None:
        """Write vectors of versions that are still live. No other job writes those, so that none is there twice."""
        import numpy as np

        rows = await asyncio.to_thread(vector_rows, page.versions, page.ordinals, goal.collection, vectors)
        versions = np.unique(page.versions)
        async with ctx.write() as tx:
            await documents.hold_turn(tx, goal.collection, goal.turn)
            await take_turn(tx, goal.collection)
            live = await documents.live_among(tx, versions.tolist())
            if len(live) < len(versions):
                kept = np.isin(page.versions, list(live))
                rows = vector_rows(page.versions[kept], page.ordinals[kept], goal.collection, vectors[kept])
            await goal.table.copy(tx, rows, compacted=goal.folded)
            reach(f"{STEP}reembed-write", tx)
        reach(f"{STEP}reembed-written")
        goal.done += len(page.texts)
        await ctx.progress(goal.done, max(goal.total, goal.done), "chunks")


async def _end(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancel the rest after a failure."""
    alive = [task for task in tasks if task is not None and not task.done()]
    for task in alive:
        task.cancel()
    await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)


class ReindexCollection:
    def __init__(self, app: Penstock, qdrant: Qdrant | None) -> None:
        self._app = app
        self._qdrant = qdrant

    @property
    def qdrant(self) -> Qdrant:
        if self._qdrant is None:
            raise no_qdrant()
        return self._qdrant

    async def reindex_collection(self, ctx: Context, collection: int, into: str, turn: int) -> Any:
        """Build the next index of a collection, then switch to it."""
        try:
            found = await self._load(collection, turn)
            if into == "qdrant":
                await self._fill(ctx, found, turn)
            else:
                await self._fold(ctx, found)
            ctx.enter("reindex-switch")
            async with ctx.finish() as tx:
                await documents.switch_index(tx, self._app, collection, turn)
                reach(f"{STEP}reindex-switched", tx)
        except documents.IndexChangeSuperseded:
            return {"superseded": True}
        return None

    async def forget_points(self, ctx: Context, collection: int) -> int:
        """Remove all points of a collection that is not searched in Qdrant; how many were left at the last count."""
        found = await self._app.database.pool.repeat(documents.find_collection_by_id, collection=collection)
        if found is None or not found.has_points or "qdrant" in (found.index, found.next_index):
            return 0
        ctx.enter("points-forget")
        await self.qdrant.delete_collection(found.model, collection)
        reach(f"{STEP}points-forget-deleted")
        if left := await self.qdrant.count(found.model, collection=collection):
            raise Transient(f"Qdrant still has {left:,} points that should be removed: the removal is retried.")
        async with ctx.write() as tx:
            await documents.forget_has_points(tx, collection)
        return 0

    async def drop_vector_index(self, ctx: Context, collection: int) -> None:
        """Drop the index that PostgreSQL has for a collection's vectors, if that is not searched there; the vectors stay."""
        found = await self._app.database.pool.repeat(documents.find_collection_by_id, collection=collection)
        if found is None or await self._app.database.pool.repeat(dimensions_of, model=found.model) is None:
            return
        ctx.enter("drop-vector-index")
        if not await drop_vector_index(
            self._app.database, collection, found.model, partial(documents.is_searched_here, collection=collection)
        ):
            raise RateLimited("The collection is being folded: its index is dropped after that.", retry_after=BUSY)

    async def _load(self, collection: int, turn: int) -> documents.Collection:
        repeat = self._app.database.pool.repeat
        found = await repeat(documents.find_collection_by_id, collection=collection)
        if found is None or not await repeat(documents.is_turn, collection=collection, turn=turn):
            raise documents.IndexChangeSuperseded
        return found

    async def _fill(self, ctx: Context, found: documents.Collection, turn: int) -> None:
        """Rounds over all versions, until one finds nothing to do: that is the check."""
        comparing = QdrantDiff(self._app.database, self.qdrant, found.model, found.id)
        for _ in range(1 + ROUNDS):
            if not await self._round(ctx, comparing, found, turn):
                return
        raise Transient(
            f"Qdrant loses points of {found.name} that it has accepted: check its logs and its disk. The present index stays."
        )

    async def _round(self, ctx: Context, comparing: QdrantDiff, found: documents.Collection, turn: int) -> int:
        """How many points had to be written or removed."""
        changed, done, after = 0, 0, BEFORE_ALL
        while True:
            await self._load(found.id, turn)
            ctx.enter("reindex-compare")
            async with ctx.limit(LIMIT):
                page = await comparing.compare(after)
                if not page.agrees:
                    ctx.enter("reindex-write")
                    await comparing.fix(page)
                    reach(f"{STEP}reindex-written")
                    changed += page.missing + page.stale + len(page.orphans)
            done += page.chunks
            await ctx.progress(done, max(found.chunks, done), "chunks")
            if page.upto is None:
                return changed
            after = page.upto

    async def _fold(self, ctx: Context, found: documents.Collection) -> None:
        database = self._app.database
        if await is_compacted(database, found.id, found.model):
            return
        ctx.enter("reindex-fold")
        await compact(database, found.id, found.model)
        if not await is_compacted(database, found.id, found.model):
            raise RateLimited(
                "Another job merges vectors of the collection: its new index is built after that.", retry_after=BUSY
            )
