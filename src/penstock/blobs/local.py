"""A folder as a blob store.

    blobs/3f/3f1c….part      while it is written
    blobs/3f/3f1c…           when all of it, and its name, are on the disk

The file is synced before it gets its name, and the folder after it: a key that was returned survives a power failure. A
process that is killed leaves a `.part`, or a whole file that no row names; the collector removes both. All of the work is
done in threads, in large blocks, with one block being hashed and written while the next one comes in.
"""

import asyncio
import errno
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from penstock.blobs.store import StoredBlob, to_the_end, too_large
from penstock.errors import NotFound, StorageFull

BLOCK = 1024 * 1024  # bytes that go to a thread at once
PIECE = 256 * 1024  # bytes of a piece that is read
KEY = re.compile(r"[0-9a-f]{32}(\.part)?")
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class LocalStore:
    """The blobs in one folder, which all processes share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ready: set[Path] = set()  # folders whose names are on the disk

    async def write(self, pieces: AsyncIterator[bytes], *, most: int) -> StoredBlob:
        part = _PartFile(self, secrets.token_hex(16), most)
        writing: asyncio.Future[None] | None = None
        last = b""
        try:
            async for block in _blocks(pieces):
                if writing is not None:
                    await writing
                if last:
                    writing = asyncio.ensure_future(asyncio.to_thread(part.add, last))
                last = block
            if writing is not None:
                await writing
            return await to_the_end(asyncio.to_thread(part.keep, last))  # a small file is one visit to a thread
        except BaseException as error:
            await to_the_end(asyncio.to_thread(part.drop))
            if writing is not None:
                await asyncio.gather(writing, return_exceptions=True)  # what it says comes second
            if isinstance(error, OSError) and error.errno in FULL:
                raise StorageFull(
                    f"{self.folder} has no room left for documents ({error.strerror}): free some space, or set blobs.folder "
                    "to a larger disk."
                ) from error
            raise

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[BinaryIO]:
        opening = asyncio.ensure_future(asyncio.to_thread(self._open, key))
        try:
            file = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)  # a thread cannot be cancelled: it opens the file all the same
            raise
        try:
            yield file
        finally:
            file.close()

    async def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        async with self.open(key) as file:
            await asyncio.to_thread(file.seek, start)
            left = float("inf") if stop is None else stop - start
            while left > 0 and (piece := await asyncio.to_thread(file.read, int(min(PIECE, left)))):
                left -= len(piece)
                yield piece

    async def remove(self, key: str) -> None:
        await asyncio.to_thread(self.path(key).unlink, missing_ok=True)

    async def size(self, key: str) -> int | None:
        try:
            return (await asyncio.to_thread(self.path(key).stat)).st_size
        except FileNotFoundError:
            return None

    async def keys(self, prefix: str = "") -> AsyncIterator[tuple[str, float]]:
        for folder in await asyncio.to_thread(lambda: sorted(self.folder.glob(f"{prefix[:2]:?<2}"))):
            for key, age in await asyncio.to_thread(_list_files, folder):
                if key.startswith(prefix):
                    yield key, age

    def path(self, key: str) -> Path:
        """Refuse anything that is not the form of our own keys: a path in it would lead out of the folder."""
        if not KEY.fullmatch(key):
            raise NotFound(f"{key[:50]!r} is not a key of this store.")
        return self.folder / key[:2] / key

    def _open(self, key: str) -> BinaryIO:
        try:
            return self.path(key).open("rb")
        except FileNotFoundError:
            raise NotFound(
                f"The bytes {key} are not in {self.folder}: is blobs.folder the same for all processes, and was it restored "
                "together with the database?"
            ) from None

    def make_folder(self, folder_of_key: Path) -> None:
        """Make the folder of a key; each new name is on the disk before anything is put below it."""
        if folder_of_key in self._ready:
            return
        for folder in (self.folder, folder_of_key):
            if folder in self._ready:
                continue
            folder.mkdir(mode=0o700, parents=folder == self.folder, exist_ok=True)
            sync_folder(folder.parent)
            self._ready.add(folder)


class _PartFile:
    """A file on its way into the store. Its methods block, and run in threads, one at a time.

    A cancelled `await` returns while its thread still works: the lock makes `drop` wait for it, and nothing comes after it.
    """

    def __init__(self, store: LocalStore, key: str, most: int) -> None:
        self._store = store
        self._key = key
        self._most = most
        self._path = store.path(key)
        self._part = store.path(f"{key}.part")
        self._file = -1
        self._hash = hashlib.sha256()
        self._size = 0
        self._lock = threading.Lock()
        self._over = False

    def add(self, block: bytes) -> None:
        with self._lock:
            if not self._over:
                self._add(block)

    def _add(self, block: bytes) -> None:
        self._size += len(block)
        if self._size > self._most:
            raise too_large(self._most)
        if self._file < 0:
            self._begin()
        self._hash.update(block)
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def keep(self, last: bytes) -> StoredBlob:
        self._add(last)
        os.fsync(self._file)
        file, self._file = self._file, -1
        os.close(file)
        self._part.rename(self._path)
        sync_folder(self._path.parent)
        return StoredBlob(self._key, self._hash.digest(), self._size)

    def drop(self) -> None:
        with self._lock:
            self._over = True
            if self._file >= 0:
                os.close(self._file)
            for path in (self._part, self._path):
                path.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._store.make_folder(self._path.parent)
        self._file = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


async def _blocks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join pieces of some kB from the network into blocks of a MB, which are worth a thread."""
    waiting: list[bytes] = []
    size = 0
    async for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _list_files(folder: Path) -> list[tuple[str, float]]:
    now = time.time()
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed, or given its name, since the folder was read
                if KEY.fullmatch(entry.name):
                    found.append((entry.name, now - entry.stat().st_mtime))
    return found


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _close(opening: "asyncio.Future[BinaryIO]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
