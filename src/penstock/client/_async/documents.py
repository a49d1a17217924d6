"""`client.documents`: list, show, explain, change, wait. Sending and fetching are in uploads.py and downloads.py."""

import builtins
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from penstock.client._async.downloads import AsyncDownloads
from penstock.client._async.uploads import AsyncUploads
from penstock.client.decoding import decode, decode_list
from penstock.client.errors import StillWaiting
from penstock.client.results import Chunk, Deleted, Document, Happening, Link, Page, Receipt, Version, Why
from penstock.client.waiting import async_sleep

OFTEN, SELDOM = 0.1, 2.0  # seconds between two looks, at first and later


class AsyncDocuments(AsyncUploads, AsyncDownloads):
    """Documents by number."""

    # -- look ---------------------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        collection: str | None = None,
        status: str | None = None,
        parent: int | None = None,
        page: int = 100,
    ) -> AsyncIterator[Document]:
        """Documents by number; deleted ones only with status="deleted"."""
        wish = {"collection": collection, "status": status, "parent": parent, "limit": page}
        return self._wire.pages("GET", "/api/documents", Document, query=wish)

    async def show(self, id: int) -> Document:  # noqa: A002
        """One document."""
        return decode(Document, await self._wire.ask("GET", "/api/documents/{id}", at={"id": id}))

    async def find(self, collection: str, name: str) -> Document:
        """One document, by its name."""
        at = {"collection": collection, "name": name}
        return decode(Document, await self._wire.ask("GET", "/api/collections/{collection}/documents/{name}", at=at))

    def pages(self, id: int, *, page: int = 100) -> AsyncIterator[Page]:  # noqa: A002
        """The text page by page."""
        return self._wire.pages("GET", "/api/documents/{id}/pages", Page, at={"id": id}, query={"limit": page})

    def chunks(self, id: int, *, page: int = 100) -> AsyncIterator[Chunk]:  # noqa: A002
        """The parts that search finds, in their order."""
        return self._wire.pages("GET", "/api/documents/{id}/chunks", Chunk, at={"id": id}, query={"limit": page})

    async def why(self, id: int) -> Why:  # noqa: A002
        """Why it is where it is: one sentence, and the evidence."""
        return decode(Why, await self._wire.ask("GET", "/api/documents/{id}/why", at={"id": id}))

    async def history(self, id: int) -> builtins.list[Happening]:  # noqa: A002
        """What happened to it, the oldest first."""
        return decode_list(Happening, await self._wire.ask("GET", "/api/documents/{id}/history", at={"id": id}))

    async def versions(self, id: int) -> builtins.list[Version]:  # noqa: A002
        """Its versions, and which one search sees."""
        return decode_list(Version, await self._wire.ask("GET", "/api/documents/{id}/versions", at={"id": id}))

    async def wait(self, id: int, *, timeout: float = 600.0) -> Document:  # noqa: A002
        """The document, once it is ready, failed or deleted. StillWaiting if that takes longer."""
        until = time.monotonic() + timeout
        pause = OFTEN
        while True:
            shown = await self.show(id)
            if shown.is_over:
                return shown
            left = until - time.monotonic()
            if left <= 0:
                raise StillWaiting(
                    f"Document {id} ({shown.name}) is {shown.status} after {timeout:.0f} s: ask `why`.", document=shown
                )
            await async_sleep(min(pause, left))
            pause = min(SELDOM, pause * 1.5)

    # -- change -------------------------------------------------------------------------------------------------------

    async def retry(self, id: int) -> Document:  # noqa: A002
        """Try a failed one again."""
        return decode(Document, await self._wire.ask("POST", "/api/documents/{id}/retry", at={"id": id}))

    async def cancel(self, id: int) -> Document:  # noqa: A002
        """Stop preparing it; it is failed then, with that as the reason."""
        return decode(Document, await self._wire.ask("POST", "/api/documents/{id}/cancel", at={"id": id}))

    async def link(self, id: int, *, seconds: int | None = None) -> Link:  # noqa: A002
        """An address from which its bytes can be fetched without a key, for some minutes."""
        made = await self._wire.ask("POST", "/api/documents/{id}/link", at={"id": id}, query={"seconds": seconds})
        link = decode(Link, made)
        return replace(link, url=self._wire.address.url + link.url) if link.url.startswith("/") else link

    async def delete(self, id: int) -> Document:  # noqa: A002
        """Out of search and lists at once; the bytes follow."""
        return decode(Document, await self._wire.ask("DELETE", "/api/documents/{id}", at={"id": id}))

    async def delete_matching(  # noqa: PLR0913  each is a condition
        self,
        collection: str,
        *,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        media_types: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        name_glob: str | None = None,
        all: bool | None = None,  # noqa: A002
        limit: int | None = None,
        reason: str | None = None,
    ) -> Deleted:
        """Delete what matches, up to a thousand at once: `more` says whether to ask again. No condition needs `all`."""
        wish = {
            "collection": collection,
            "status": status,
            "metadata": metadata,
            "media_types": [*media_types] or None,
            "since": since and since.isoformat(),
            "until": until and until.isoformat(),
            "name_glob": name_glob,
            "all": all,
            "limit": limit,
            "reason": reason,
        }
        named = {name: value for name, value in wish.items() if value is not None}
        return decode(Deleted, await self._wire.ask("POST", "/api/documents/delete", body=named))

    async def restore(self, id: int) -> Document:  # noqa: A002
        """Bring a deleted one back, while that is possible."""
        return decode(Document, await self._wire.ask("POST", "/api/documents/{id}/restore", at={"id": id}))

    async def receipt(self, id: int) -> Receipt:  # noqa: A002
        """What was removed of a deleted one, and how that was verified."""
        return decode(Receipt, await self._wire.ask("GET", "/api/documents/{id}/receipt", at={"id": id}))

    def receipts(self, *, page: int = 100) -> AsyncIterator[Receipt]:
        """The receipts of all deletions."""
        return self._wire.pages("GET", "/api/receipts", Receipt, query={"limit": page})
