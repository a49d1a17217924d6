"""The job that keeps Qdrant as PostgreSQL says, by a schedule: some pages at a time, and on in the next run.

Where it is stands in `penstock.checks`, like that of every check; what it has put right is a finding that is over. When much
is wrong at once, few findings are noted of a page and all of it is counted. The points of versions that are being published
or removed are left to who does that.
"""

import time
from collections.abc import Sequence
from typing import Any

from penstock.documents.checks.finding import Found, begin_check, end_page, note_repaired
from penstock.engine import Context, Penstock
from penstock.engine.failpoint import STEP, reach
from penstock.engine.wording import counted
from penstock.search.comparing import BEFORE_ALL, Comparing, Page
from penstock.search.entries import split_key
from penstock.search.qdrant import Qdrant, no_qdrant
from penstock.search.vectors import made_models
from penstock.telemetry import counter, log

CHECK = "points"
SECONDS = 240.0  # after which the rest is left to the next run
NOTED = 20  # findings of one page

repaired = counter(
    "penstock_points_repaired",
    "Points in Qdrant that were put right: missing (written again), stale (written over), orphaned (removed)",
    ("what",),
)


class Reconciling:
    """The handler."""

    def __init__(self, app: Penstock, qdrant: Qdrant | None) -> None:
        self._app = app
        self._qdrant = qdrant

    async def reconcile_points(self, ctx: Context) -> dict[str, Any]:
        """Compare both sides from where the last run has ended; what was looked at and put right, for the history."""
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
            comparing = Comparing(database, self._qdrant, model)
            page = await comparing.look(after)
            if not page.agrees:
                ctx.enter("points-mend")
                await comparing.mend(page)
                reach(f"{STEP}points-mended")
                await self._note(ctx, page)
            for what, count in _counts(page).items():
                done[what] += count
            last = [model, page.upto] if page.upto is not None else [model, None]
            if not await end_page(database, CHECK, seen=cursor, last=last, subjects=page.versions):
                return done  # somebody else goes on from here
            cursor = last
            await ctx.progress(done["versions"], note="versions")
            if time.monotonic() > until:
                return done

    async def _place(self, cursor: list[Any] | None) -> tuple[str | None, int]:
        """The model that is looked at next, and behind which of its versions; no model at the end of the round."""
        models = await self._app.database.pool.repeat(made_models)
        if cursor is None:
            return (models[0] if models else None), BEFORE_ALL
        model, after = cursor
        if after is not None and model in models:
            return model, int(after)
        later = [each for each in models if each > model]
        return (later[0] if later else None), BEFORE_ALL

    async def _note(self, ctx: Context, page: Page) -> None:
        for what in ("missing", "stale", "orphaned"):
            if count := _counts(page)[what]:
                repaired.labels(what).inc(count)
        log.warning("points were put right", missing=page.missing, stale=page.stale, orphaned=len(page.orphans))
        async with ctx.write() as tx:
            await note_repaired(tx, CHECK, _lacking(page), "They were written again.")
            await note_repaired(tx, CHECK, _orphans(page), "They were removed.")


def _counts(page: Page) -> dict[str, int]:
    return {
        "versions": page.versions,
        "chunks": page.chunks,
        "missing": page.missing,
        "stale": page.stale,
        "orphaned": len(page.orphans),
    }


def _lacking(page: Page) -> Sequence[Found]:
    return [
        Found(
            each.wanted.version,
            f"Document {each.wanted.document} ({each.wanted.name}) has {counted(each.wanted.chunks, 'chunk')}, and Qdrant "
            f"lacked {len(each.missing):,} of its points and had {len(each.stale):,} that were stale.",
            f"penstock why {each.wanted.document}",
            each.wanted.document,
            each.wanted.tenant,
        )
        for each in page.lacking[:NOTED]
    ]


def _orphans(page: Page) -> Sequence[Found]:
    by_version = dict.fromkeys(page.orphaned_versions[:NOTED], 0)
    for key in page.orphans:
        if isinstance(key, int) and (version := split_key(key)[0]) in by_version:
            by_version[version] += 1
    found = [
        Found(
            version, f"Qdrant had {counted(points, 'point')} of version {version}, which needs none.", "penstock doctor"
        )
        for version, points in by_version.items()
    ]
    if foreign := sum(isinstance(key, str) for key in page.orphans):
        said = f"Qdrant had {counted(foreign, 'point')} whose numbers are none of ours."
        found.append(Found(0, said, "Let nobody else write into the collections of qdrant.prefix."))
    return found
