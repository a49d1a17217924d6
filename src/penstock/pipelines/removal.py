"""The job that removes what was deleted: at once after a deletion, and again each minute while something is left.

Some documents must wait for the end of the jobs that prepared them, which a worker is told with its next beat. The handler
waits for those a little while; what takes longer is left to the next one.
"""

import asyncio

from penstock.blobs import Store
from penstock.documents import is_anything_due, remove_deleted
from penstock.documents.leaving import call_leaving
from penstock.engine import Context, JobId, Kind, Penstock

PATIENCE = 15.0  # seconds
LOOK_EVERY = 0.5


class Removal:
    """The handler, and who calls it."""

    remove_call: Kind

    def __init__(self, app: Penstock, store: Store) -> None:
        self._app = app
        self._store = store

    async def remove_documents(self, ctx: Context) -> int:
        """Remove all that is due, and look again; how many documents."""
        loop = asyncio.get_running_loop()
        removed, deadline = 0, loop.time() + PATIENCE
        while True:
            done = await remove_deleted(self._app.database, self._store)
            removed += done
            if done:
                await call_leaving(self._app)
            if loop.time() > deadline or not await is_anything_due(self._app.database):
                return removed
            if not done:
                await asyncio.sleep(LOOK_EVERY)

    async def call(self) -> bool:
        """Have it done, if there is something to do and nobody does it yet."""
        if not await is_anything_due(self._app.database):
            return False
        job = await self._enqueue()
        # A dead one has the key, and would keep it for ever: its failure stays in the history, and another one tries.
        if not job.created and await self._app.discard(job, reason="another one removes what is left"):
            await self._enqueue()
        return True

    async def _enqueue(self) -> JobId:
        return await self._app.enqueue(self.remove_call(), unique=self.remove_call.name, share="_system")
