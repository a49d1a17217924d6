"""What a blob store offers: bytes under random keys, written once, hashed on the way, durable before the key is known.

A key says nothing about the content: the digest is known only after the last byte, and a store in a cloud has no rename.
Who gave which bytes which key is in the table `penstock.blobs`; a key that is not in it is garbage, and is collected.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from penstock.errors import Transient
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes that are in the store."""

    key: str
    digest: bytes  # sha-256
    size: int


class Store(Protocol):
    """A place for bytes."""

    async def write(self, pieces: AsyncIterator[bytes], *, most: int) -> Stored:
        """Keep a stream; after an error, nothing of it is left. Raises BodyTooLarge and StorageFull."""

    def open(self, key: str) -> AbstractAsyncContextManager[BinaryIO]:
        """The bytes as a real file, which has a descriptor to give to a child process."""

    def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `stop`, in pieces."""

    async def remove(self, key: str) -> None:
        """Forget the bytes; those that are not there are gone already."""

    async def size(self, key: str) -> int | None:
        """How many bytes there are under this key; None if there is nothing."""

    def keys(self, prefix: str = "") -> AsyncIterator[tuple[str, float]]:
        """The keys that begin so, half written or not, with the seconds since they were last written to."""


def open_store(settings: Settings) -> Store:
    """The store that the settings name: a bucket, or a folder."""
    if settings.blobs.url:
        from penstock.blobs.cloud import open_cloud

        return open_cloud(settings)
    from penstock.blobs.local import LocalStore

    return LocalStore(settings.blobs.folder or settings.home / "blobs")


async def probe(store: Store) -> None:
    """Write some bytes, read them back and remove them; what is wrong with the store is raised."""
    content = secrets.token_bytes(32)

    async def pieces() -> AsyncIterator[bytes]:
        yield content

    stored = await store.write(pieces(), most=len(content))
    try:
        found = b"".join([piece async for piece in store.read(stored.key)])
    finally:
        await store.remove(stored.key)
    if found != content:
        raise Transient(
            "The blob store gave back other bytes than were written to it. Check its disk, or its endpoint."
        )
