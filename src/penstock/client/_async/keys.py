"""`client.keys`: API keys, for those whose own key may make them."""

from collections.abc import AsyncIterator, Sequence

from penstock.client._async.wire import AsyncWire
from penstock.client.decoding import decode
from penstock.client.results import Key


class AsyncKeys:
    """Keys by number."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        collections: Sequence[str] | None = None,
        expires_in: float | None = None,
    ) -> Key:
        """Make a key; `key` of what comes back is the secret, which is told this once. Scopes: read, write, admin."""
        wish = {
            "name": name,
            "scopes": [*scopes],
            "collections": None if collections is None else [*collections],
            "expires_in": expires_in,
        }
        return decode(Key, await self._wire.ask("POST", "/api/keys", body=wish))

    def list(self, *, page: int = 100) -> AsyncIterator[Key]:
        """All keys, without their secrets."""
        return self._wire.pages("GET", "/api/keys", Key, query={"limit": page})

    async def revoke(self, id: int) -> Key:  # noqa: A002
        """From now on it does not count."""
        return decode(Key, await self._wire.ask("DELETE", "/api/keys/{key}", at={"key": id}))
