"""Another index for a collection: a job builds it beside the present one and switches; another one removes what is not used.

Into Qdrant it goes over all versions that must have points and writes what is missing, until a whole round finds both sides
equal; what is there already is skipped, so an interrupted one goes on where it was. Documents that become ready meanwhile
write to both. Into PostgreSQL, which has all vectors, it makes the index that a large collection deserves. The last
transaction is the switch and the end of the job: until then the old index answers.
"""

from functools import partial
from typing import Any

from penstock.documents.collection import Collection, find_by_number
from penstock.documents.reindexing import Superseded, forget_has_points, is_searched_here, is_turn, switch_index
from penstock.engine import Context, Penstock
from penstock.engine.failpoint import STEP, reach
from penstock.errors import RateLimited, Transient
from penstock.pipelines.points import LIMIT
from penstock.search import drop_vector_index as drop
from penstock.search import fold, is_folded
from penstock.search.comparing import BEFORE_ALL, Comparing
from penstock.search.points import dimensions_of
from penstock.search.qdrant import Qdrant, no_qdrant

ROUNDS = 3  # in which something is missing again that was written before
BUSY = 30.0  # seconds until somebody else may have folded


class Reindexing:
    """The handlers."""

    def __init__(self, app: Penstock, qdrant: Qdrant | None) -> None:
        self._app = app
        self._qdrant = qdrant

    @property
    def qdrant(self) -> Qdrant:
        if self._qdrant is None:
            raise no_qdrant()
        return self._qdrant

    async def reindex_collection(self, ctx: Context, collection: int, into: str, turn: int) -> Any:
        """Build the next index of a collection, then let that be its index."""
        try:
            found = await self._load(collection, turn)
            if into == "qdrant":
                await self._fill(ctx, found, turn)
            else:
                await self._fold(ctx, found)
            ctx.enter("reindex-switch")
            async with ctx.finish() as tx:
                await switch_index(tx, self._app, collection, turn)
                reach(f"{STEP}reindex-switched", tx)
        except Superseded:
            return {"superseded": True}
        return None

    async def forget_points(self, ctx: Context, collection: int) -> int:
        """Remove all points of a collection that is not searched in Qdrant; how many were left at the last count."""
        found = await self._app.database.pool.repeat(partial(find_by_number, collection=collection))
        if found is None or not found.has_points or "qdrant" in (found.index, found.next_index):
            return 0
        ctx.enter("points-forget")
        await self.qdrant.delete_collection(found.model, collection)
        reach(f"{STEP}points-forget-deleted")
        if left := await self.qdrant.count(found.model, collection=collection):
            raise Transient(f"Qdrant still has {left:,} points that it was told to remove: it is told again.")
        async with ctx.write() as tx:
            await forget_has_points(tx, collection)
        return 0

    async def drop_vector_index(self, ctx: Context, collection: int) -> None:
        """Drop the index that PostgreSQL has for a collection's vectors, if that is not searched there; the vectors stay."""
        found = await self._app.database.pool.repeat(partial(find_by_number, collection=collection))
        if found is None or await self._app.database.pool.repeat(partial(dimensions_of, model=found.model)) is None:
            return
        ctx.enter("drop-vector-index")
        if not await drop(
            self._app.database, collection, found.model, partial(is_searched_here, collection=collection)
        ):
            raise RateLimited("The collection is being folded: its index is dropped after that.", retry_after=BUSY)

    async def _load(self, collection: int, turn: int) -> Collection:
        repeat = self._app.database.pool.repeat
        found = await repeat(partial(find_by_number, collection=collection))
        if found is None or not await repeat(partial(is_turn, collection=collection, turn=turn)):
            raise Superseded
        return found

    async def _fill(self, ctx: Context, found: Collection, turn: int) -> None:
        """Rounds over all versions, until one finds nothing to do: that is the check."""
        comparing = Comparing(self._app.database, self.qdrant, found.model, found.id)
        for _ in range(1 + ROUNDS):
            if not await self._round(ctx, comparing, found, turn):
                return
        raise Transient(
            f"Qdrant loses points of {found.name} that it has taken: look at its logs and its disk. The present index stays."
        )

    async def _round(self, ctx: Context, comparing: Comparing, found: Collection, turn: int) -> int:
        """How many points had to be written or removed."""
        changed, done, after = 0, 0, BEFORE_ALL
        while True:
            await self._load(found.id, turn)
            ctx.enter("reindex-compare")
            async with ctx.limit(LIMIT):
                page = await comparing.look(after)
                if not page.agrees:
                    ctx.enter("reindex-write")
                    await comparing.mend(page)
                    reach(f"{STEP}reindex-written")
                    changed += page.missing + page.stale + len(page.orphans)
            done += page.chunks
            await ctx.progress(done, max(found.chunks, done), "chunks")
            if page.upto is None:
                return changed
            after = page.upto

    async def _fold(self, ctx: Context, found: Collection) -> None:
        database = self._app.database
        if await is_folded(database, found.id, found.model):
            return
        ctx.enter("reindex-fold")
        await fold(database, found.id, found.model)
        if not await is_folded(database, found.id, found.model):
            raise RateLimited("Somebody else folds the collection: its new index is made after that.", retry_after=BUSY)
