"""Maintenance jobs: purging what was deleted, tidying and compaction, integrity checks, and the redrive of dead letters.

Purging begins right after a deletion, and again each minute while something is left. Tidying and checks run by a schedule, in
bounded batches: what one run leaves, the next one does.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from penstock import documents
from penstock.blobs import BlobStore
from penstock.documents.deletion import call_qdrant_remover
from penstock.documents.integrity import check_documents
from penstock.engine import Context, JobId, Kind, Penstock, inspect
from penstock.knowledge.crawl import sweep_crawls
from penstock.models import Models
from penstock.search import Index, compact, needs_compaction

PATIENCE = 15.0  # seconds that a purge waits for jobs of deleted documents to end
CHECK_EVERY = 0.5
REDRIVE_QUEUE = "redrive"
SHARE = "_system"
REDRIVE_SLOTS = 4


class RemoveDocuments:
    remove_call: Kind

    def __init__(self, app: Penstock, store: BlobStore) -> None:
        self._app = app
        self._store = store

    async def remove_documents(self, ctx: Context) -> int:
        """Remove all that is due, and verify it; how many documents."""
        loop = asyncio.get_running_loop()
        removed, deadline = 0, loop.time() + PATIENCE
        while True:
            done = await documents.remove_deleted(self._app.database, self._store)
            removed += done
            if done:
                await call_qdrant_remover(self._app)
            if loop.time() > deadline or not await documents.is_anything_due(self._app.database):
                return removed
            if not done:
                await asyncio.sleep(CHECK_EVERY)

    async def call(self) -> bool:
        """Enqueue the job, if there is something to do and no job yet."""
        if not await documents.is_anything_due(self._app.database):
            return False
        job = await self._enqueue()
        # A dead one has the key, and would keep it for ever: its failure stays in the history, and another one tries.
        if not job.created and await self._app.discard(job, reason="another one removes what is left"):
            await self._enqueue()
        return True

    async def _enqueue(self) -> JobId:
        return await self._app.enqueue(self.remove_call(), unique=self.remove_call.name, fairness_key="_system")


class TidyDocuments:
    fold_call: Kind

    def __init__(self, app: Penstock, store: BlobStore, models: Models, removal: RemoveDocuments) -> None:
        self._app = app
        self._store = store
        self._models = models
        self._removal = removal
        self._index = Index()

    async def tidy_documents(self, ctx: Context) -> dict[str, int]:
        """One batch of everything; the counts, for the history."""
        database = self._app.database
        put_right = await documents.reconcile(database)
        done = {
            "failed": put_right.failed,
            "deleted": put_right.deleted,
            "versions": await documents.clear_old_versions(database, self._index.clear),
            "tallies": await documents.compact_tallies(database),
            "minutes": await documents.count_minutes(database),
            "answers": await documents.sweep_answers(database),
            "blobs": await documents.collect_blobs(database, self._store, database.settings.blobs.collect_after),
        }
        await self._removal.call()
        await call_qdrant_remover(self._app)
        await documents.end_abandoned(database, self._app)
        for each in await needs_compaction(database):
            await self._app.enqueue(
                self.fold_call(collection=each.collection, model=each.model),
                unique=f"fold {each.collection} {each.model}",
                fairness_key="_system",
            )
        done["crawls"] = await sweep_crawls(database)
        return done

    async def fold_vectors(self, ctx: Context, collection: int, model: str) -> int:
        """Move new vectors of a large collection into its index; how many."""
        return await compact(self._app.database, collection, model)


class CheckDocuments:
    def __init__(self, app: Penstock, store: BlobStore) -> None:
        self._app = app
        self._store = store

    async def check_documents(self, ctx: Context) -> dict[str, dict[str, int]]:
        """Counts of what was checked, found and repaired, for the history; without the checks that have found nothing."""
        done = await check_documents(self._app, self._store)
        return {name: looked for name, looked in done.items() if looked["subjects"] or looked["found"]}


@dataclass(frozen=True)
class RedriveStart:
    """The job that redrives, and how many it will try; no job if there is nothing to try."""

    job: int | None
    jobs: int
    created: bool = False  # False: it was under way already


class RedriveDeadLetters:
    """The kind of job, and its enqueueing."""

    def __init__(self, app: Penstock, notifier: documents.Notifier) -> None:
        self._app = app
        self._notifier = notifier
        self._kind = app.job(queue=REDRIVE_QUEUE, timeout="3d", retries=10)(self.redrive_jobs)

    async def start(self, selection: inspect.Selection, *, force: bool = False) -> RedriveStart:
        """Raises NothingChanged unless forced, before anything is enqueued."""
        plan = await inspect.plan_redrive(self._app.database, selection, force=force)
        if not plan.attempts:
            return RedriveStart(None, 0)
        call = self._kind(ids=list(selection.ids), fingerprint=selection.fingerprint, kind=selection.kind)
        job = await self._app.enqueue(call, unique=selection.key, fairness_key=SHARE)
        return RedriveStart(job, len(plan.attempts), job.created)

    async def redrive_jobs(
        self, ctx: Context, ids: list[int], fingerprint: str | None = None, kind: str | None = None
    ) -> dict[str, Any]:
        """Go through the stages; the outcome, and a sentence about it."""
        selection = inspect.Selection(tuple(ids), fingerprint, kind)

        async def make_plan() -> dict[str, Any]:
            return (await inspect.plan_redrive(self._app.database, selection, force=True)).as_json()

        plan = inspect.RedrivePlan.of_json(await ctx.step("plan", make_plan))
        total = len(plan.attempts)

        async def run(number: int, stage: list[int], left: int) -> inspect.Stage:
            said, before = inspect.describe_stage(stage, left), total - left - len(stage)

            async def ended(count: int) -> None:
                await ctx.progress(before + count, total, said)

            async def pass_through() -> dict[str, Any]:
                async with ctx.write() as tx:
                    await inspect.try_stage(tx, plan, stage)
                await ended(0)
                self._notifier.notify()
                return vars(await inspect.watch_stage(self._app.database, plan, stage, ended=ended))

            return inspect.Stage(**await ctx.step(f"stage {number}", pass_through))

        result: inspect.RedriveResult = await inspect.run_stages(plan, run)
        self._notifier.notify()
        return vars(result) | {"sentence": result.sentence}
