"""Uploads files into a collection: several at once, each in pieces, straight into the blob store and the database.

Names are looked up many at a time. A file whose name exists is hashed, and skipped if its content is the same. Every refusal
becomes an entry of the progress.
"""

import asyncio
import getpass
import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedReader
from typing import Any, TypeVar

from asyncpg import Record

from penstock.cli.add.discover import LocalFile
from penstock.cli.add.progress import FAILED, AddProgress, Entry
from penstock.database import statements
from penstock.documents import Accepted, Collection, Upload, check_document_name
from penstock.documents.ingest import BulkIntake
from penstock.errors import DatabaseTrouble, NameTaken, PenstockError, QueueFull, Refused, StorageFull
from penstock.product import Product

sql = statements(__file__)

T = TypeVar("T")

AT_ONCE = 8  # uploads at the same time
TOGETHER = 16  # small files in one transaction
NAMES_AT_ONCE = 500  # names of one query
PIECE = 2**18  # bytes
TRIES = 4  # when the database is unreachable
LONGEST_PAUSE = 2.0  # seconds, when the queue is full


class Uploader:
    def __init__(
        self, product: Product, collection: Collection, progress: AddProgress, *, replace: bool, metadata: Any
    ) -> None:
        self._product = product
        self._bulk = BulkIntake(product.intake)
        self._collection = collection
        self._progress = progress
        self._replace = replace
        self._metadata = metadata
        self._user = _user()
        self._full: StorageFull | None = None

    async def add(self, files: Sequence[LocalFile]) -> None:
        """Add the files; each becomes an entry of the progress."""
        places = asyncio.Semaphore(AT_ONCE)

        async def add_one(file: LocalFile, name: str, there: Record | None) -> None:
            try:
                self._progress.note(await self._add(file, name, there))
            finally:
                places.release()

        async def add_several(several: Sequence[tuple[LocalFile, str]]) -> None:
            try:
                await self._add_several(several)
            finally:
                places.release()

        async with asyncio.TaskGroup() as group:
            for first in range(0, len(files), NAMES_AT_ONCE):
                named = self._named(files[first : first + NAMES_AT_ONCE])
                there = await self._there([name for _, name in named])
                small = [(file, name) for file, name in named if name not in there and file.size < PIECE]
                for several in batched(small, TOGETHER):
                    await places.acquire()
                    group.create_task(add_several(several))
                for file, name in named:
                    if name in there or file.size >= PIECE:
                        await places.acquire()
                        group.create_task(add_one(file, name, there.get(name)))

    def _named(self, files: Sequence[LocalFile]) -> list[tuple[LocalFile, str]]:
        named = []
        for file in files:
            try:
                named.append((file, check_document_name(file.name)))
            except Refused as error:
                self._progress.note(Entry(file.name, "refused", reason=str(error)))
        return named

    async def _there(self, names: list[str]) -> dict[str, Record]:
        rows = await self._product.app.database.pool.repeat(
            sql.already_there, collection=self._collection.id, names=names
        )
        return {row["name"]: row for row in rows}

    async def _add_several(self, several: Sequence[tuple[LocalFile, str]]) -> None:
        """Add small new files in one transaction. Files that it refuses are retried individually."""
        left = list(several)
        if len(several) > 1 and self._full is None:
            left = await self._accept_together(several)
        for file, name in left:
            self._progress.note(await self._add(file, name, None))

    async def _accept_together(self, several: Sequence[tuple[LocalFile, str]]) -> list[tuple[LocalFile, str]]:
        """Accept the files together; returns those that were not accepted."""
        left = []
        with ExitStack() as opened:
            uploads = []
            for file, name in several:
                try:
                    content = opened.enter_context(file.path.open("rb"))
                except OSError:  # reported when it is retried individually
                    left.append((file, name))
                else:
                    uploads.append((file, name, self._upload(name, content)))
            outcomes = await self._bulk.accept(
                [upload for _, _, upload in uploads],
                collection_id=self._collection.id,
                tenant=self._collection.tenant,
            )
        for (file, name, upload), outcome in zip(uploads, outcomes, strict=True):
            if isinstance(outcome, Accepted):
                self._progress.note(Entry(name, "accepted", outcome.id))
            else:
                self._progress.sent -= upload.size or 0  # it will be sent again
                left.append((file, name))
        return left

    async def _add(self, file: LocalFile, name: str, there: Record | None) -> Entry:
        try:
            if self._full is not None:
                raise self._full
            with file.path.open("rb") as content:
                return await self._add_content(file, name, content, there)
        except StorageFull as error:
            self._full = error  # there is no space for the others, either
            reason = str(error)
        except PenstockError as error:
            reason = str(error)
        except OSError as error:
            reason = f"it cannot be read: {(error.strerror or str(error)).lower()}"
        return Entry(name, "refused", reason=reason)

    async def _add_content(self, file: LocalFile, name: str, content: BufferedReader, there: Record | None) -> Entry:
        known = None if there is None else await self._compare(name, content, there)
        if known is not None:
            self._progress.sent += file.size
            return known
        try:
            return await self._accept(file, name, content)
        except NameTaken:  # another client was faster, perhaps with the same content
            there = (await self._there([name])).get(name)
            known = None if there is None else await self._compare(name, content, there)
            if known is None:
                raise
            return known

    async def _compare(self, name: str, content: BufferedReader, there: Record) -> Entry | None:
        """The entry of a file whose name exists; None if it becomes a new version."""
        same = await asyncio.to_thread(_digest, content) == there["digest"]
        await asyncio.to_thread(content.seek, 0)
        if same and self._replace and there["state"] == FAILED:
            return None  # it is retried
        if same:
            reason = f"failed before: {there['error']}" if there["state"] == FAILED else ""
            return Entry(name, "skipped", there["id"], there["state"], reason)
        if self._replace:
            return None
        reason = f"document {there['id']} has this name and other content: --replace adds a new version"
        return Entry(name, "refused", there["id"], reason=reason)

    async def _accept(self, file: LocalFile, name: str, content: BufferedReader) -> Entry:
        """Accept a file. Retries while the queue is full, and a few times when the database is unreachable."""
        tries = 0
        while True:
            before = self._progress.sent
            try:
                accepted = await self._product.intake.accept(
                    self._upload(name, content), collection_id=self._collection.id, tenant=self._collection.tenant
                )
            except QueueFull as error:
                pause = min(error.retry_after.total_seconds(), LONGEST_PAUSE)
            except DatabaseTrouble:
                tries += 1
                if tries == TRIES:
                    raise
                pause = 0.2 * 2**tries
            else:
                return Entry(name, "skipped" if accepted.unchanged else "accepted", accepted.id)
            self._progress.sent = before
            content.seek(0)
            await asyncio.sleep(pause)

    def _upload(self, name: str, content: BufferedReader) -> Upload:
        size = os.fstat(content.fileno()).st_size
        return Upload(
            collection=self._collection.name,
            name=name,
            content=self._pieces(content, size),
            size=size,
            uploaded_by=self._user,
            metadata=self._metadata,
            replace=self._replace,
        )

    async def _pieces(self, content: BufferedReader, size: int) -> AsyncIterator[bytes]:
        """Read the file in pieces; a small one at once, because a thread would take longer."""
        while piece := content.read(PIECE) if size < PIECE else await asyncio.to_thread(content.read, PIECE):
            self._progress.sent += len(piece)
            yield piece


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _digest(content: BufferedReader) -> bytes:
    content.seek(0)
    return hashlib.file_digest(content, "sha256").digest()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return ""
