"""Points of another index: written and counted before a version becomes live, removed and counted when nobody will see it.

    publish_points:  vectors of PostgreSQL ─▶ Qdrant ─▶ counted ─▶ [the version is live, the job is done]
    remove_points:   orders to remove ─▶ deleted in Qdrant ─▶ counted to be none ─▶ [the orders are gone]

Both use the limit `qdrant`: while its breaker is open their lanes are closed, nothing is claimed and no try is spent. No
connection is held during a call. A job that is tried again does all of it again, which is the same again: a point has one
number.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from penstock.documents import Announcer, Published, Work, load_work, publish
from penstock.documents.awaiting import (
    Unpublished,
    forget_findings,
    load_unpublished,
    prepare_again,
    wants_points,
)
from penstock.documents.leaving import forget_leaving, list_leaving
from penstock.documents.packet import Packet, end_packet, load_packet
from penstock.documents.reembedding import ModelChanged
from penstock.engine import Context, Penstock
from penstock.engine.failpoint import STEP, reach
from penstock.errors import RateLimited, Transient
from penstock.pipelines.ends import ends
from penstock.pipelines.removal import Removal
from penstock.search.points import Run, dimensions_of, read_points
from penstock.search.qdrant import Qdrant, no_qdrant

LIMIT = "qdrant"
READ = 1_000  # vectors that are read and held at a time
REMOVED = 200  # versions whose points are removed by one call
COUNTED_IN = 200  # versions that are counted by one call
MOVED = 1.0  # seconds until a job comes again whose collection was changed under its hands


class Points:
    """The handlers."""

    def __init__(self, app: Penstock, qdrant: Qdrant | None, announcer: Announcer, removal: Removal) -> None:
        self._app = app
        self._qdrant = qdrant
        self._announcer = announcer
        self._removal = removal

    @property
    def qdrant(self) -> Qdrant:
        if self._qdrant is None:
            raise no_qdrant()
        return self._qdrant

    # -- becoming live ------------------------------------------------------------------------------------------------

    async def publish_points(self, ctx: Context, document: int, version: int) -> None:
        """Write the points of a version, and of all that wait with it; count them; then let search see them."""
        repeat = self._app.database.pool.repeat
        waiting = await repeat(partial(load_unpublished, head=version))
        found = [
            (each, await repeat(partial(load_work, document=each.document, version=each.version))) for each in waiting
        ]
        # One that was deleted or replaced meanwhile is nobody's any more; without the head, nothing is to be done at all.
        ready = [(each, _as_prepared(work, each)) for each, work in found if work is not None]
        if not any(each.version == version for each, _ in ready):
            return
        counted = await repeat(partial(wants_points, collection=ready[0][1].collection))
        if counted:
            await self._write(ctx, ready)
        packet = await repeat(partial(load_packet, document=document, version=version))
        try:
            await self._publish(ctx, ready, packet, counted=counted)
        except ModelChanged:
            async with ctx.finish() as tx:
                share = ready[-1][1].share
                await prepare_again(
                    tx, self._app, document=document, head=version, share=share, packet=packet is not None
                )
        self._announcer.tell()

    async def _write(self, ctx: Context, ready: Sequence[tuple[Unpublished, Work]]) -> None:
        repeat = self._app.database.pool.repeat
        total, done = sum(each.found.chunks for each, _ in ready), 0
        if not total:
            return
        ctx.enter("points-write")
        model = ready[0][1].model
        dimensions = await repeat(partial(dimensions_of, model=model))
        if dimensions is None:
            raise Transient(f"There are no vectors of the model {model} in PostgreSQL.")
        await self.qdrant.prepare(model, dimensions)
        for each, work in ready:
            for first in range(0, each.found.chunks, READ):
                run = Run(each.version, first, min(first + READ, each.found.chunks))
                read = partial(read_points, model=model, runs=[run], collection=work.collection, tenant=work.tenant)
                await self.qdrant.upsert(model, await repeat(read))
                reach(f"{STEP}points-written")
                done += run.stop - run.first
                await ctx.progress(done, total, "points")
        ctx.enter("points-count")
        for start in range(0, len(ready), COUNTED_IN):
            await self._count(model, ready[start : start + COUNTED_IN])

    async def _count(self, model: str, ready: Sequence[tuple[Unpublished, Work]]) -> None:
        """Exactly as many as chunks. More are of an earlier attempt, with smaller chunks: all of it is written anew then."""
        expected = {each.version: each.found.chunks for each, _ in ready}
        versions = list(expected)
        there = await self.qdrant.count(model, versions=versions)
        if there == sum(expected.values()):
            return
        if there > sum(expected.values()):
            await self.qdrant.delete_versions(model, versions)
        raise Transient(
            f"Qdrant has {there:,} points of {sum(expected.values()):,} that were written: they are written again."
        )

    async def _publish(
        self, ctx: Context, ready: Sequence[tuple[Unpublished, Work]], packet: Packet | None, *, counted: bool
    ) -> None:
        ctx.enter("points-publish")
        published: list[tuple[Published, Unpublished]] = []
        head = ready[-1][0].head
        async with ctx.finish() as tx:
            for each, work in ready:
                done = await publish(tx, work, **_arguments(each), counted=counted, head=head)
                if isinstance(done, Unpublished):
                    raise RateLimited("The collection wants points since a moment ago.", retry_after=MOVED)
                if done is not None:
                    published.append((done, each))
            if packet is not None and any(each.version == head for _, each in published):
                own = next(each for _, each in published if each.version == head)
                missing = [each for each in packet.documents if each.first_page is None and each.member_id is not None]
                await end_packet(tx, packet, [tuple(part) for part in own.ending.get("parts", ())], missing)
            await forget_findings(tx, head)
            reach(f"{STEP}points-published", tx)
        for done, each in published:
            ends.count(done, gaps=bool(each.found.gaps))

    # -- going --------------------------------------------------------------------------------------------------------

    async def remove_points(self, ctx: Context) -> int:
        """Remove the points of versions that nobody will see again, until there are none; how many versions."""
        repeat = self._app.database.pool.repeat
        removed = 0
        while leaving := await repeat(partial(list_leaving, most=REMOVED)):
            model, versions = leaving[0].model, [each.version for each in leaving]
            ctx.enter("points-remove")
            await self.qdrant.delete_versions(model, versions)
            reach(f"{STEP}points-removed")
            if left := await self.qdrant.count(model, versions=versions):
                raise Transient(f"Qdrant still has {left:,} points that it was told to remove: it is told again.")
            async with ctx.write() as tx:
                await forget_leaving(tx, versions)
                reach(f"{STEP}points-forgotten", tx)
            removed += len(versions)
            await ctx.progress(removed, note="versions")
        await self._removal.call()  # receipts may have waited for it
        return removed


def _as_prepared(work: Work, waiting: Unpublished) -> Work:
    """With the models that the collection had when it was prepared: publishing compares them with those of now."""
    return replace(work, model=waiting.model, next_model=waiting.next_model, model_turn=waiting.model_turn)


def _arguments(waiting: Unpublished) -> dict[str, Any]:
    return asdict(waiting.found)
