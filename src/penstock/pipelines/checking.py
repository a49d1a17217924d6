"""The job that checks what must be true of documents, by a schedule: some pages of each check, and on in the next run."""

from penstock.blobs import Store
from penstock.documents.checks import check_documents
from penstock.engine import Context, Penstock


class Checking:
    """The handler that looks whether everything is as it must be."""

    def __init__(self, app: Penstock, store: Store) -> None:
        self._app = app
        self._store = store

    async def check_documents(self, ctx: Context) -> dict[str, dict[str, int]]:
        """What was looked at, found and repaired, for the history; without the checks that have found nothing."""
        done = await check_documents(self._app, self._store)
        return {name: looked for name, looked in done.items() if looked["subjects"] or looked["found"]}
