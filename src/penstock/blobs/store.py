"""The interface of blob stores: bytes under random keys, written once, hashed on the way, durable before the key is known.

A key does not depend on the content: the digest is known only after the last byte, and a store in a cloud has no rename. The
table `penstock.blobs` has the keys with their digests; a key that is not in it is garbage, and is collected.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, TypeVar

from penstock.errors import BodyTooLarge, Transient
from penstock.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """Bytes that are in the store."""

    key: str
    digest: bytes  # sha-256
    size: int


class BlobStore(Protocol):
    """A folder or a bucket with the bytes of documents."""

    async def write(self, pieces: AsyncIterator[bytes], *, most: int) -> StoredBlob:
        """Keep a stream; after an error, nothing of it is left. Raises BodyTooLarge and StorageFull."""

    def open(self, key: str) -> AbstractAsyncContextManager[BinaryIO]:
        """The bytes as a real file, which has a descriptor to give to a child process."""

    def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `stop`, in pieces."""

    async def remove(self, key: str) -> None:
        """Remove the bytes; no error when they are already gone."""

    async def size(self, key: str) -> int | None:
        """The number of bytes under this key; None if there are none."""

    def keys(self, prefix: str = "") -> AsyncIterator[tuple[str, float]]:
        """The keys with this prefix, also half-written ones, with the seconds since they were last written to."""


def open_store(settings: Settings) -> BlobStore:
    """The store that the settings name: a bucket, or a folder."""
    if settings.blobs.url:
        from penstock.blobs.cloud import open_cloud

        return open_cloud(settings)
    from penstock.blobs.local import LocalStore

    return LocalStore(settings.blobs.folder or settings.home / "blobs")


def too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"More than {most:,} bytes, the most for one document (limits.bytes): split it, or raise the limit."
    )


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for the end of `work` even when cancelled meanwhile."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def probe(store: BlobStore) -> None:
    """Write some bytes, read them back and remove them; raise what is wrong with the store."""
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
