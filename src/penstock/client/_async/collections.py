"""`client.collections`."""

from collections.abc import AsyncIterator

from penstock.client._async.wire import AsyncWire
from penstock.client.decoding import decode
from penstock.client.errors import NotFound
from penstock.client.results import Collection

Setting = str | int | None  # model, chunk_size, chunk_overlap, ocr_language, search_language, index


class AsyncCollections:
    """Collections by name."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def create(self, name: str, **settings: Setting) -> Collection:
        """Make one; NameTaken if there is one of this name. Settings: model, chunk_size, chunk_overlap, …"""
        made = await self._wire.ask("POST", "/api/collections", body={"name": name, **settings})
        return decode(Collection, made)

    def list(self, *, page: int = 100) -> AsyncIterator[Collection]:
        """All, by name."""
        return self._wire.pages("GET", "/api/collections", Collection, query={"limit": page})

    async def show(self, name: str) -> Collection:
        """One, with its documents counted by status."""
        return decode(Collection, await self._wire.ask("GET", "/api/collections/{collection}", at={"collection": name}))

    async def change(self, name: str, *, new_name: str | None = None, **settings: Setting) -> Collection:
        """Rename it, or change settings; what is not named stays."""
        wish = {key: value for key, value in {"name": new_name, **settings}.items() if value is not None}
        changed = await self._wire.ask("PATCH", "/api/collections/{collection}", at={"collection": name}, body=wish)
        return decode(Collection, changed)

    async def delete(self, name: str) -> None:
        """Delete it with all of its documents."""
        try:
            await self._wire.ask("DELETE", "/api/collections/{collection}", at={"collection": name})
        except NotFound as error:
            if not error.repeated:  # else an earlier try has deleted it, and only its answer was lost
                raise
