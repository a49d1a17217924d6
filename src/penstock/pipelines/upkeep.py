"""What keeps documents tidy, by a schedule and in bounded bites: no bite is long, and the next one comes within a minute.

Old versions' chunks, deleted documents of which something is left, bytes that belong to nobody, counts that can be added up,
answers that nobody will ask for again, and collections whose vectors deserve an index.
"""

from penstock.blobs import Store
from penstock.documents import (
    clear_old_versions,
    collect_blobs,
    compact_tallies,
    count_minutes,
    reconcile,
    sweep_answers,
)
from penstock.documents.leaving import call_leaving
from penstock.documents.reindexing import end_abandoned
from penstock.engine import Context, Kind, Penstock
from penstock.knowledge.crawl import sweep_crawls
from penstock.models import Models
from penstock.pipelines.removal import Removal
from penstock.search import Index, fold, needs_folding


class Upkeep:
    """The handlers that clean up."""

    fold_call: Kind

    def __init__(self, app: Penstock, store: Store, models: Models, removal: Removal) -> None:
        self._app = app
        self._store = store
        self._models = models
        self._removal = removal
        self._index = Index()

    async def tidy_documents(self, ctx: Context) -> dict[str, int]:
        """One bite of everything; what was done, for the history."""
        database = self._app.database
        put_right = await reconcile(database)
        done = {
            "failed": put_right.failed,
            "deleted": put_right.deleted,
            "versions": await clear_old_versions(database, self._index.clear),
            "tallies": await compact_tallies(database),
            "minutes": await count_minutes(database),
            "answers": await sweep_answers(database),
            "blobs": await collect_blobs(database, self._store, database.settings.blobs.collect_after),
        }
        await self._removal.call()
        await call_leaving(self._app)
        await end_abandoned(database, self._app)
        for each in await needs_folding(database):
            await self._app.enqueue(
                self.fold_call(collection=each.collection, model=each.model),
                unique=f"fold {each.collection} {each.model}",
                share="_system",
            )
        done["crawls"] = await sweep_crawls(database)
        return done

    async def fold_vectors(self, ctx: Context, collection: int, model: str) -> int:
        """Move new vectors of a large collection into its index; how many."""
        return await fold(self._app.database, collection, model)
