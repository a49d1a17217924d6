# Made from ../_async/collections.py by `python -m tests.client.unasync`: change that one.
"""`client.collections`."""

from collections.abc import Iterator

from penstock.client._sync.wire import Wire
from penstock.client.decoding import decode
from penstock.client.errors import NotFound
from penstock.client.results import Collection

Setting = str | int | None  # model, chunk_size, chunk_overlap, ocr_language, search_language, index


class Collections:
    """Collections by name."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, name: str, **settings: Setting) -> Collection:
        """Make one; NameTaken if there is one of this name. Settings: model, chunk_size, chunk_overlap, …"""
        made = self._wire.ask("POST", "/api/collections", body={"name": name, **settings})
        return decode(Collection, made)

    def list(self, *, page: int = 100) -> Iterator[Collection]:
        """All, by name."""
        return self._wire.pages("GET", "/api/collections", Collection, query={"limit": page})

    def show(self, name: str) -> Collection:
        """One, with its documents counted by status."""
        return decode(Collection, self._wire.ask("GET", "/api/collections/{collection}", at={"collection": name}))

    def change(self, name: str, *, new_name: str | None = None, **settings: Setting) -> Collection:
        """Rename it, or change settings; what is not named stays."""
        wish = {key: value for key, value in {"name": new_name, **settings}.items() if value is not None}
        changed = self._wire.ask("PATCH", "/api/collections/{collection}", at={"collection": name}, body=wish)
        return decode(Collection, changed)

    def delete(self, name: str) -> None:
        """Delete it with all of its documents."""
        try:
            self._wire.ask("DELETE", "/api/collections/{collection}", at={"collection": name})
        except NotFound as error:
            if not error.repeated:  # else an earlier try has deleted it, and only its answer was lost
                raise
