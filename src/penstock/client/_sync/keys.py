# Made from ../_async/keys.py by `python -m tests.client.unasync`: change that one.
"""`client.keys`: API keys, for those whose own key may make them."""

from collections.abc import Iterator, Sequence

from penstock.client._sync.wire import Wire
from penstock.client.decoding import decode
from penstock.client.results import Key


class Keys:
    """Keys by number."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(
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
        return decode(Key, self._wire.ask("POST", "/api/keys", body=wish))

    def list(self, *, page: int = 100) -> Iterator[Key]:
        """All keys, without their secrets."""
        return self._wire.pages("GET", "/api/keys", Key, query={"limit": page})

    def revoke(self, id: int) -> Key:  # noqa: A002
        """From now on it does not count."""
        return decode(Key, self._wire.ask("DELETE", "/api/keys/{key}", at={"key": id}))
