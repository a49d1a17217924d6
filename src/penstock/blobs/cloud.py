"""A bucket as a blob store: S3 and what speaks it (MinIO), Azure Blob, Google Cloud Storage. By obstore, the extra `cloud`.

    prefix/3f/3f1c…      exists only when all of it is there

S3 is tested on moto's server and Azure on Azurite; Google Cloud Storage is UNTESTED. What fits into one part is one request.
More goes up in parts of 8 MB, one on its way while the next one is filled. A write that fails makes the body raise, upon
which obstore takes the parts back; it does not when its task is cancelled, so the upload has a task that never is. Only a
process that is killed leaves parts, which no listing shows: give the bucket a rule that removes unfinished uploads after a day.
Reading is done by ranges: a slow reader holds no connection.
"""

import asyncio
import errno
import hashlib
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pydantic import SecretStr

from penstock.blobs.store import StoredBlob, to_the_end, too_large
from penstock.errors import BadSetting, BodyTooLarge, NotFound, StorageFull, Transient
from penstock.settings import Settings, parse_options

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig


PART = 8 * 1024 * 1024  # bytes of one part of an upload
BLOCK = 1024 * 1024  # bytes that are hashed at once, in a thread
RANGE = 4 * 1024 * 1024  # bytes of one request to read
PIECE = 256 * 1024  # bytes of a piece that is read
KEY = re.compile(r"[0-9a-f]{32}")
FULL = re.compile(r"QuotaExceeded|StorageFull|InsufficientStorage|status code: 507|No space left")
CLIENT: "ClientConfig" = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}
RETRY: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}

Put = Callable[[bytes | AsyncIterator[bytes]], Coroutine[Any, Any, None]]


class BlockStream:
    """Cuts a stream into blocks, counts and hashes them."""

    def __init__(self, pieces: AsyncIterator[bytes], most: int) -> None:
        self.size = 0
        self.ended = False
        self._pieces = pieces
        self._most = most
        self._hash = hashlib.sha256()

    def digest(self) -> bytes:
        return self._hash.digest()

    async def blocks(self) -> AsyncIterator[bytes]:
        waiting: list[bytes] = []
        held = 0
        async for piece in self._pieces:
            self.size += len(piece)
            if self.size > self._most:
                raise too_large(self._most)
            waiting.append(piece)
            held += len(piece)
            if held >= BLOCK:
                yield await self._hashed(waiting)
                waiting, held = [], 0
        last = await self._hashed(waiting)
        self.ended = True
        if last:
            yield last

    async def _hashed(self, waiting: list[bytes]) -> bytes:
        block = b"".join(waiting)
        await asyncio.to_thread(self._hash.update, block)
        return block


class _Stopped(Exception):
    """The upload was stopped."""


class MultipartUpload:
    """An upload in its own task, which is stopped by an error of its body, and never cancelled."""

    def __init__(self, put: Put, first: list[bytes], *, whole: bool) -> None:
        self._next: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._stopped = False
        body = b"".join(first) if whole else self._body(first)
        self._task = asyncio.create_task(put(body))

    async def add(self, block: bytes | None) -> None:
        """Add a block, or None for the end, once the one before is taken; raise the upload's error if it has failed."""
        adding = asyncio.ensure_future(self._next.put(block))
        try:
            await asyncio.wait([adding, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            adding.cancel()
        if self._task.done():
            await self._task

    async def finish(self) -> None:
        await self.add(None)
        await asyncio.shield(self._task)

    async def stop(self) -> bool:
        """End it, and return whether the object may exist already."""
        self._stopped = True
        while not self._next.empty():
            self._next.get_nowait()
        self._next.put_nowait(None)
        [outcome] = await asyncio.gather(self._task, return_exceptions=True)
        return not isinstance(outcome, _Stopped)

    async def _body(self, first: list[bytes]) -> AsyncIterator[bytes]:
        while first and not self._stopped:
            yield first.pop(0)
        while not self._stopped and (block := await self._next.get()) is not None:
            yield block
        if self._stopped:
            raise _Stopped


async def up_to(blocks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The first blocks, until they are this much; the others stay."""
    held = 0
    while held < size and (block := await anext(blocks, None)) is not None:
        held += len(block)
        yield block


class CloudStore:
    """The blobs below one prefix of a bucket."""

    def __init__(self, bucket: "ObjectStore", url: str, scratch: Path, largest: int) -> None:
        self.url = url
        self.scratch = scratch
        self._bucket = bucket
        self._largest = largest

    async def write(self, pieces: AsyncIterator[bytes], *, most: int) -> StoredBlob:
        key = secrets.token_hex(16)
        path = self.path(key)
        stream = BlockStream(pieces, most)
        blocks = stream.blocks()
        first = [block async for block in up_to(blocks, PART)]
        upload = MultipartUpload(partial(self.put, path), first, whole=stream.ended)
        try:
            if not stream.ended:
                async for block in blocks:
                    await upload.add(block)
            await upload.finish()
        except BaseException:
            await to_the_end(self._withdraw(upload, path))
            raise
        return StoredBlob(key, stream.digest(), stream.size)

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[BinaryIO]:
        size = await self._size(key)
        if size > self._largest:
            raise BodyTooLarge(
                f"The bytes {key} are {size:,}, more than limits.bytes ({self._largest:,}): raise the limit."
            )
        file = await asyncio.to_thread(self._scratch_file)
        try:
            async for piece in self._ranges(key, 0, size):
                await asyncio.to_thread(self._add, file, piece)
            await asyncio.to_thread(file.seek, 0)
            yield file
        finally:
            with suppress(OSError):  # what a full disk did not take of its buffer
                file.close()

    async def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        size = await self._size(key)
        async for piece in self._ranges(key, start, size if stop is None else min(stop, size)):
            yield piece

    async def remove(self, key: str) -> None:
        import obstore

        with suppress(FileNotFoundError), self.trouble("removing from", missing=True):
            await obstore.delete_async(self._bucket, self.path(key))

    async def size(self, key: str) -> int | None:
        try:
            return await self._size(key)
        except NotFound:
            return None

    async def keys(self, prefix: str = "") -> AsyncIterator[tuple[str, float]]:
        import obstore

        now = datetime.now(UTC)
        for folder in _folders(prefix):
            listing = obstore.list(self._bucket, folder, chunk_size=1000)
            while True:
                with self.trouble("listing"):
                    found = await anext(listing, None)
                if found is None:
                    break
                for each in found:
                    key = each["path"].rpartition("/")[2]
                    if KEY.fullmatch(key) and key.startswith(prefix):
                        yield key, (now - each["last_modified"]).total_seconds()

    def path(self, key: str) -> str:
        """Refuse anything that is not the form of our own keys."""
        if not KEY.fullmatch(key):
            raise NotFound(f"{key[:50]!r} is not a key of this store.")
        return f"{key[:2]}/{key}"

    async def put(self, path: str, body: bytes | AsyncIterator[bytes]) -> None:
        """One request, or the parts of an upload: at most one is on its way."""
        import obstore

        with self.trouble("writing to"):
            await obstore.put_async(self._bucket, path, body, chunk_size=PART, max_concurrency=1)

    async def _withdraw(self, upload: MultipartUpload, path: str) -> None:
        import obstore

        if await upload.stop():
            with suppress(FileNotFoundError, Transient), self.trouble("removing from", missing=True):
                await obstore.delete_async(self._bucket, path)  # else the collector does it

    async def _size(self, key: str) -> int:
        import obstore

        path = self.path(key)
        try:
            with self.trouble("reading from", missing=True):
                return (await obstore.head_async(self._bucket, path))["size"]
        except FileNotFoundError:
            raise self._missing(key) from None

    async def _ranges(self, key: str, start: int, stop: int) -> AsyncIterator[bytes]:
        import obstore

        for at in range(start, stop, RANGE):
            try:
                with self.trouble("reading from", missing=True):
                    found = await obstore.get_range_async(
                        self._bucket, self.path(key), start=at, end=min(at + RANGE, stop)
                    )
            except FileNotFoundError:
                raise self._missing(key) from None
            if len(found) != min(at + RANGE, stop) - at:
                raise Transient(
                    f"{self.url} gave {len(found):,} bytes of {key} where there are more: the read is retried."
                )
            view = memoryview(found)
            for piece in range(0, len(found), PIECE):
                yield bytes(view[piece : piece + PIECE])

    def _scratch_file(self) -> BinaryIO:
        """A file without a name: it is gone with its last descriptor, even after a kill."""
        self.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self.scratch)

    def _add(self, file: BinaryIO, piece: bytes) -> None:
        try:
            file.write(piece)
            file.flush()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                raise
            raise StorageFull(f"{self.scratch} has no room for a document from {self.url}: free some space.") from error

    def _missing(self, key: str) -> NotFound:
        return NotFound(
            f"The bytes {key} are not in {self.url}: is blobs.url the same for all processes, and was it restored together "
            "with the database?"
        )

    @contextmanager
    def trouble(self, doing: str, *, missing: bool = False) -> Iterator[None]:
        """Turn errors of obstore into sentences. Their own text is not passed on: it may quote a signed address."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError) as error:
            if isinstance(error, FileNotFoundError) and missing:
                raise
            text = str(error)
        else:
            return
        if FULL.search(text):
            raise StorageFull(f"{self.url} has no room left for documents: free some space, or raise its quota.")
        raise Transient(
            f"{doing.capitalize()} {self.url} failed: {reason_of(text)}. Check blobs.url, its access and the network."
        )


def open_cloud(settings: Settings) -> CloudStore:
    """The bucket that blobs.url names. No request is made yet."""
    blobs = settings.blobs
    url = blobs.url or ""
    bucket = make_bucket(url, blobs.endpoint, blobs.options, named="blobs.url, blobs.endpoint and blobs.options")
    return CloudStore(bucket, url, settings.home / "scratch", settings.limits.bytes)


def make_bucket(url: str, endpoint: str | None, options: SecretStr | None, *, named: str) -> "ObjectStore":
    """A bucket by its address; `named` are the settings that the sentence of a failure names."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        raise BadSetting(
            f"{url} needs obstore, which is not installed. Install penstock[cloud], or use a folder instead of a bucket."
        ) from None
    scheme, _, rest = url.partition("://")
    name, _, prefix = rest.partition("/")
    config: dict[str, Any] = parse_options(options)
    if endpoint:
        config["endpoint"] = endpoint
    client = CLIENT | {"allow_http": (endpoint or "").startswith("http://")}
    kinds: dict[str, Any] = {"s3": S3Store, "az": AzureStore, "gs": GCSStore}
    if scheme not in kinds:
        raise BadSetting(
            f"{url} is not a bucket: write s3://bucket/prefix, az://container/prefix or gs://bucket/prefix."
        )
    try:
        bucket: ObjectStore = kinds[scheme](
            name, prefix=prefix.strip("/") or None, config=config, client_options=client, retry_config=RETRY
        )
    except (BaseError, ValueError) as error:
        raise BadSetting(f"{url} cannot be opened: {_without(config, reason_of(str(error)))}. Check {named}.") from None
    return bucket


def _folders(prefix: str) -> list[str | None]:
    """A listing goes by whole folders."""
    if not prefix:
        return [None]
    return [prefix[:2]] if len(prefix) > 1 else [prefix + digit for digit in "0123456789abcdef"]


def reason_of(text: str) -> str:
    """The first line, without the query of an address, which may be a signature."""
    line = re.sub(r"\?\S*", "?…", text.strip().partition("\n")[0])
    return line[:300].rstrip(" .:")


def _without(config: dict[str, Any], text: str) -> str:
    for value in config.values():
        text = text.replace(str(value), "***") if len(str(value)) > 3 else text
    return text
