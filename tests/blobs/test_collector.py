"""What belongs to no document is removed, after its grace; what an upload takes at the same moment is not."""

import asyncio
import os
from datetime import timedelta

import pytest

from penstock.blobs import StoredBlob, collect
from penstock.blobs.collector import CollectorResult
from penstock.blobs.local import LocalStore
from penstock.database import Database
from tests.blobs.conftest import keys_of, pieces

DAY = timedelta(days=1)


class BlobTable:
    """A store and the table about it."""

    def __init__(self, database: Database, store: LocalStore) -> None:
        self.database = database
        self.store = store

    async def run(self, query: str, *arguments: object) -> list[dict[str, object]]:
        async with self.database.pool.session() as session:
            return [dict(row) for row in await session.fetch(query, *arguments)]

    async def put(self, content: bytes, *, row: bool = True, version: bool = False) -> StoredBlob:
        stored = await self.store.write(pieces(content), most=1000)
        if row:
            await self.run(
                "insert into penstock.blobs (key, digest, size) values ($1, $2, $3)",
                stored.key,
                stored.digest,
                stored.size,
            )
        if version:
            await self.name(stored)
        return stored

    async def name(self, stored: StoredBlob) -> None:
        """A version that has these bytes."""
        await self.run(
            "insert into penstock.collections (name, model, chunk_size, chunk_overlap, ocr_language, search_language) "
            "values ('c', 'm', 1000, 0, 'en', 'english') on conflict do nothing"
        )
        await self.run(
            "with document as (insert into penstock.documents (collection_id, name) select id, $1 from penstock.collections "
            "returning id) insert into penstock.versions (document_id, number, blob_id) "
            "select document.id, 1, blob.id from document, penstock.blobs as blob where blob.key = $1",
            stored.key,
        )

    async def age(self, length: timedelta) -> None:
        await self.run("update penstock.test_clock set shift = shift + $1", length)
        for key in await keys_of(self.store):
            path = self.store.path(key)
            seen = path.stat()
            os.utime(path, (seen.st_atime, seen.st_mtime - length.total_seconds()))

    async def collect(self, *, whole: bool = True) -> CollectorResult:
        return await collect(self.database, self.store, DAY, whole=whole)


@pytest.fixture
def blob_table(database: Database, store: LocalStore) -> BlobTable:
    return BlobTable(database, store)


async def test_files_without_a_row_go_after_their_grace(blob_table: BlobTable) -> None:
    kept = await blob_table.put(b"kept", version=True)
    lost = await blob_table.put(b"lost", row=False)
    part = blob_table.store.path(f"{'a' * 32}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(b"half")
    assert await blob_table.collect() == CollectorResult()
    await blob_table.age(DAY)
    assert await blob_table.collect() == CollectorResult(files=2)
    assert await keys_of(blob_table.store) == [kept.key]
    assert lost.key not in await keys_of(blob_table.store)


async def test_rows_without_a_version_go_after_their_grace(blob_table: BlobTable) -> None:
    kept = await blob_table.put(b"kept", version=True)
    unused = await blob_table.put(b"unused")
    await blob_table.age(10 * DAY)
    assert await blob_table.collect() == CollectorResult()  # it is noted as unused only now
    await blob_table.age(DAY / 2)
    assert await blob_table.collect() == CollectorResult()
    await blob_table.age(DAY)
    assert await blob_table.collect() == CollectorResult(blobs=1)
    assert await keys_of(blob_table.store) == [kept.key]
    assert [row["key"] for row in await blob_table.run("select key from penstock.blobs")] == [kept.key]
    assert unused.key != kept.key


async def test_what_is_used_again_is_kept(blob_table: BlobTable) -> None:
    stored = await blob_table.put(b"x")
    await blob_table.collect()
    await blob_table.name(stored)
    await blob_table.age(2 * DAY)
    assert await blob_table.collect() == CollectorResult()
    [row] = await blob_table.run("select unused_at, state from penstock.blobs")
    assert row == {"unused_at": None, "state": "kept"}


async def test_a_collector_that_died_in_the_middle_is_continued(blob_table: BlobTable) -> None:
    stored = await blob_table.put(b"x")
    await blob_table.run("update penstock.blobs set state = 'deleting', unused_at = penstock.now()")
    await blob_table.store.remove(stored.key)
    assert await blob_table.collect() == CollectorResult(blobs=1)
    assert await blob_table.run("select from penstock.blobs") == []


async def test_a_part_by_chance_reaches_everything_in_time(blob_table: BlobTable) -> None:
    for number in range(20):
        await blob_table.put(b"%d" % number, row=number % 2 == 0)
    await blob_table.age(2 * DAY)
    async with asyncio.timeout(60):
        while await keys_of(blob_table.store):
            await blob_table.collect(whole=False)
            await blob_table.run("update penstock.blobs set unused_at = unused_at - interval '2 days'")
    assert await blob_table.run("select from penstock.blobs") == []


async def test_an_upload_and_the_collector_meet(blob_table: BlobTable) -> None:
    """Either the collector was first, and the upload keeps its own bytes; or the upload was, and the row stays."""
    from penstock.documents.ingest.intake import keep_blobs

    for turn in range(15):
        content = b"%d" % turn
        old = await blob_table.put(content)
        await blob_table.run(
            "update penstock.blobs set unused_at = penstock.now() - interval '2 days' where key = $1", old.key
        )
        mine = await blob_table.store.write(pieces(content), most=10)

        async def upload(stored: StoredBlob = mine) -> str:
            async with blob_table.database.pool.transaction() as tx:
                kept = (await keep_blobs(tx, [stored], tenant="default"))[stored.digest]
                await tx.execute(
                    "insert into penstock.collections (id, name, model, chunk_size, chunk_overlap, ocr_language, "
                    "search_language) overriding system value values (1, 'c', 'm', 1000, 0, 'en', 'english') "
                    "on conflict do nothing"
                )
                await tx.execute(
                    "with document as (insert into penstock.documents (collection_id, name) values (1, $1) returning id) "
                    "insert into penstock.versions (document_id, number, blob_id) select id, 1, $2 from document",
                    stored.key,
                    kept.id,
                )
            return kept.key

        key, _ = await asyncio.gather(upload(), blob_table.collect())
        assert b"".join([piece async for piece in blob_table.store.read(key)]) == content
        [row] = await blob_table.run("select state, unused_at from penstock.blobs where key = $1", key)
        assert row == {"state": "kept", "unused_at": None}
