"""The jobs that keep Qdrant: points are written and counted before a version becomes live, and removed when it is dead.

    publish_points:  vectors of PostgreSQL ─▶ Qdrant ─▶ counted ─▶ [the version is live, the job is done]
    remove_points:   orders to remove ─▶ deleted in Qdrant ─▶ counted to be none ─▶ [the orders are gone]
    reconcile_points: by a schedule, pages of both sides are compared, and Qdrant is repaired

They use the limit `qdrant`: while its breaker is open their lanes are closed, nothing is claimed and no try is spent. No
connection is held during a call. All of it is idempotent, since a point has one id.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from penstock.documents import (
    ModelChanged,
    Notifier,
    Packet,
    PendingVersion,
    Publication,
    Work,
    end_packet,
    forget_findings,
    load_packet,
    load_pending,
    load_work,
    prepare_again,
    publish,
    wants_points,
)
from penstock.documents.deletion import forget_qdrant_removals, list_qdrant_removals
from penstock.documents.integrity import IntegrityFinding, begin_check, end_page, note_repaired
from penstock.engine import STEP, Context, Penstock, reach
from penstock.errors import RateLimited, Transient
from penstock.pipelines.maintenance import RemoveDocuments
from penstock.pipelines.metrics import ends
from penstock.search import made_models
from penstock.search.bm25 import split_key
from penstock.search.qdrant import (
    BEFORE_ALL,
    ChunkRange,
    DiffPage,
    Qdrant,
    QdrantDiff,
    dimensions_of,
    no_qdrant,
    read_points,
)
from penstock.telemetry import counter, log
from penstock.text import counted

LIMIT = "qdrant"
READ = 1_000  # vectors that are read and held at a time
REMOVED = 200  # versions whose points are removed by one call
COUNTED_IN = 200  # versions that are counted by one call
MOVED = 1.0  # seconds until a job is retried whose collection was changed concurrently
CHECK = "points"  # the name of the integrity check
SECONDS = 240.0  # after which the rest is left to the next run
NOTED = 20  # findings of one page


repaired = counter(
    "penstock_points_repaired",
    "Points in Qdrant that were put right: missing (written again), stale (written over), orphaned (removed)",
    ("what",),
)


class PublishPoints:
    def __init__(self, app: Penstock, qdrant: Qdrant | None, notifier: Notifier, removal: RemoveDocuments) -> None:
        self._app = app
        self._qdrant = qdrant
        self._notifier = notifier
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
        waiting = await repeat(load_pending, head=version)
        found = [(each, await repeat(load_work, document=each.document, version=each.version)) for each in waiting]
        # A version that was deleted or replaced meanwhile is left out; without the first one, there is nothing to do.
        ready = [(each, _as_prepared(work, each)) for each, work in found if work is not None]
        if not any(each.version == version for each, _ in ready):
            return
        counted = await repeat(wants_points, collection=ready[0][1].collection)
        if counted:
            await self._write(ctx, ready)
        packet = await repeat(load_packet, document=document, version=version)
        try:
            await self._publish(ctx, ready, packet, counted=counted)
        except ModelChanged:
            async with ctx.finish() as tx:
                fairness_key = ready[-1][1].fairness_key
                await prepare_again(
                    tx, self._app, document=document, head=version, fairness_key=fairness_key, packet=packet is not None
                )
        self._notifier.notify()

    async def _write(self, ctx: Context, ready: Sequence[tuple[PendingVersion, Work]]) -> None:
        repeat = self._app.database.pool.repeat
        total, done = sum(each.found.chunks for each, _ in ready), 0
        if not total:
            return
        ctx.enter("points-write")
        model = ready[0][1].model
        dimensions = await repeat(dimensions_of, model=model)
        if dimensions is None:
            raise Transient(f"There are no vectors of the model {model} in PostgreSQL.")
        await self.qdrant.prepare(model, dimensions)
        for each, work in ready:
            for first in range(0, each.found.chunks, READ):
                run = ChunkRange(each.version, first, min(first + READ, each.found.chunks))
                await self.qdrant.upsert(
                    model,
                    await repeat(read_points, model=model, runs=[run], collection=work.collection, tenant=work.tenant),
                )
                reach(f"{STEP}points-written")
                done += run.stop - run.first
                await ctx.progress(done, total, "points")
        ctx.enter("points-count")
        for start in range(0, len(ready), COUNTED_IN):
            await self._count(model, ready[start : start + COUNTED_IN])

    async def _count(self, model: str, ready: Sequence[tuple[PendingVersion, Work]]) -> None:
        """Exactly as many as chunks. More are of an earlier attempt, with smaller chunks: all of it is written again then."""
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
        self, ctx: Context, ready: Sequence[tuple[PendingVersion, Work]], packet: Packet | None, *, counted: bool
    ) -> None:
        ctx.enter("points-publish")
        published: list[tuple[Publication, PendingVersion]] = []
        head = ready[-1][0].head
        async with ctx.finish() as tx:
            for each, work in ready:
                done = await publish(tx, work, **asdict(each.found), counted=counted, head=head)
                if isinstance(done, PendingVersion):
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
        """Remove the points of versions that search will not see again, until there are none; how many versions."""
        repeat = self._app.database.pool.repeat
        removed = 0
        while leaving := await repeat(list_qdrant_removals, most=REMOVED):
            model, versions = leaving[0].model, [each.version for each in leaving]
            ctx.enter("points-remove")
            await self.qdrant.delete_versions(model, versions)
            reach(f"{STEP}points-removed")
            if left := await self.qdrant.count(model, versions=versions):
                raise Transient(f"Qdrant still has {left:,} points that it was told to remove: it is told again.")
            async with ctx.write() as tx:
                await forget_qdrant_removals(tx, versions)
                reach(f"{STEP}points-forgotten", tx)
            removed += len(versions)
            await ctx.progress(removed, note="versions")
        await self._removal.call()  # receipts may have waited for it
        return removed


def _as_prepared(work: Work, waiting: PendingVersion) -> Work:
    """With the models that the collection had when it was prepared: publishing compares them with those of now."""
    return replace(work, model=waiting.model, next_model=waiting.next_model, model_turn=waiting.model_turn)


class ReconcileQdrant:
    def __init__(self, app: Penstock, qdrant: Qdrant | None) -> None:
        self._app = app
        self._qdrant = qdrant

    async def reconcile_points(self, ctx: Context) -> dict[str, Any]:
        """Compare both sides from where the last run has ended; counts of what was compared and repaired, for the history."""
        if self._qdrant is None:
            raise no_qdrant()
        database = self._app.database
        until = time.monotonic() + SECONDS
        done = dict.fromkeys(("versions", "chunks", "missing", "stale", "orphaned"), 0)
        cursor = await begin_check(database, CHECK)
        while True:
            model, after = await self._place(cursor)
            if model is None:
                await end_page(database, CHECK, seen=cursor, last=None, subjects=0)
                return done
            ctx.enter("points-compare")
            comparing = QdrantDiff(database, self._qdrant, model)
            page = await comparing.compare(after)
            if not page.agrees:
                ctx.enter("points-repair")
                await comparing.fix(page)
                reach(f"{STEP}points-repaired")
                await self._note(ctx, page)
            for what, count in _counts(page).items():
                done[what] += count
            last = [model, page.upto] if page.upto is not None else [model, None]
            if not await end_page(database, CHECK, seen=cursor, last=last, subjects=page.versions):
                return done  # another worker goes on from here
            cursor = last
            await ctx.progress(done["versions"], note="versions")
            if time.monotonic() > until:
                return done

    async def _place(self, cursor: list[Any] | None) -> tuple[str | None, int]:
        """The model that is compared next, and after which of its versions; no model at the end of the round."""
        models = await self._app.database.pool.repeat(made_models)
        if cursor is None:
            return (models[0] if models else None), BEFORE_ALL
        model, after = cursor
        if after is not None and model in models:
            return model, int(after)
        later = [each for each in models if each > model]
        return (later[0] if later else None), BEFORE_ALL

    async def _note(self, ctx: Context, page: DiffPage) -> None:
        for what in ("missing", "stale", "orphaned"):
            if count := _counts(page)[what]:
                repaired.labels(what).inc(count)
        log.warning("points were put right", missing=page.missing, stale=page.stale, orphaned=len(page.orphans))
        async with ctx.write() as tx:
            await note_repaired(tx, CHECK, _lacking(page), "They were written again.")
            await note_repaired(tx, CHECK, _orphans(page), "They were removed.")


def _counts(page: DiffPage) -> dict[str, int]:
    return {
        "versions": page.versions,
        "chunks": page.chunks,
        "missing": page.missing,
        "stale": page.stale,
        "orphaned": len(page.orphans),
    }


def _lacking(page: DiffPage) -> Sequence[IntegrityFinding]:
    return [
        IntegrityFinding(
            each.wanted.version,
            f"Document {each.wanted.document} ({each.wanted.name}) has {counted(each.wanted.chunks, 'chunk')}, and Qdrant "
            f"lacked {len(each.missing):,} of its points and had {len(each.stale):,} that were stale.",
            f"penstock why {each.wanted.document}",
            each.wanted.document,
            each.wanted.tenant,
        )
        for each in page.lacking[:NOTED]
    ]


def _orphans(page: DiffPage) -> Sequence[IntegrityFinding]:
    by_version = dict.fromkeys(page.orphaned_versions[:NOTED], 0)
    for key in page.orphans:
        if isinstance(key, int) and (version := split_key(key)[0]) in by_version:
            by_version[version] += 1
    found = [
        IntegrityFinding(
            version, f"Qdrant had {counted(points, 'point')} of version {version}, which needs none.", "penstock doctor"
        )
        for version, points in by_version.items()
    ]
    if foreign := sum(isinstance(key, str) for key in page.orphans):
        said = f"Qdrant had {counted(foreign, 'point')} whose ids are not of Penstock."
        found.append(
            IntegrityFinding(0, said, "Keep other programs from writing into the collections of qdrant.prefix.")
        )
    return found
