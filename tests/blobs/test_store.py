"""What every store keeps to, be it a folder or a bucket."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator

import pytest

from penstock.blobs import BlobStore, probe
from penstock.blobs.local import BLOCK
from penstock.errors import BodyTooLarge, NotFound
from tests.blobs.conftest import keys_of, pieces

MOST = 30_000_000
PART = 8 * BLOCK
SIZES = [[], [0], [5], [BLOCK - 1, 2], [100_000] * 35, [PART], [PART - 1, 2], [PART + BLOCK] * 2]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
async def test_what_was_written_is_read(any_store: BlobStore, sizes: list[int]) -> None:
    contents = [os.urandom(size) for size in sizes]
    whole = b"".join(contents)
    stored = await any_store.write(pieces(*contents), most=MOST)
    assert (stored.size, stored.digest) == (len(whole), hashlib.sha256(whole).digest())
    assert b"".join([piece async for piece in any_store.read(stored.key)]) == whole
    async with any_store.open(stored.key) as file:
        assert os.fstat(file.fileno()).st_size == len(whole)
        assert await asyncio.to_thread(file.read) == whole
    assert await keys_of(any_store) == [stored.key]


@pytest.mark.parametrize(
    ("start", "stop"), [(3, 1000), (0, 1), (4_194_303, 4_194_305), (7, None), (5, 5), (9**9, None)]
)
async def test_a_range(any_store: BlobStore, start: int, stop: int | None) -> None:
    whole = os.urandom(5_000_000)
    stored = await any_store.write(pieces(whole), most=MOST)
    assert b"".join([piece async for piece in any_store.read(stored.key, start, stop)]) == whole[start:stop]


async def test_the_same_content_again(any_store: BlobStore) -> None:
    first, second = [await any_store.write(pieces(b"same"), most=4) for _ in range(2)]
    assert first.digest == second.digest
    await any_store.remove(first.key)
    assert b"".join([piece async for piece in any_store.read(second.key)]) == b"same"


async def test_removing(any_store: BlobStore) -> None:
    stored = await any_store.write(pieces(b"x"), most=1)
    assert await any_store.size(stored.key) == 1
    await any_store.remove(stored.key)
    await any_store.remove(stored.key)  # again is the same
    assert await any_store.size(stored.key) is None
    with pytest.raises(NotFound, match=r"is blobs\.\w+ the same for all processes"):
        async with any_store.open(stored.key):
            pass
    with pytest.raises(NotFound):
        [piece async for piece in any_store.read(stored.key)]


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 32 + "\n", "/" + "a" * 31])
async def test_only_our_own_keys_are_keys(any_store: BlobStore, key: str) -> None:
    with pytest.raises(NotFound, match="not a key"):
        async with any_store.open(key):
            pass
    with pytest.raises(NotFound, match="not a key"):
        await any_store.remove(key)


async def test_keys_by_their_beginning_with_their_age(any_store: BlobStore) -> None:
    made = sorted([(await any_store.write(pieces(b"x"), most=1)).key for _ in range(20)])
    assert await keys_of(any_store) == made
    for prefix in ("0", made[0][:1], made[0][:2], made[0][:5], made[0]):
        assert [key async for key, _ in any_store.keys(prefix)] == [key for key in made if key.startswith(prefix)]
    assert all([-2 < age < 60 async for _, age in any_store.keys("")])


async def test_too_many_bytes_leave_nothing(any_store: BlobStore) -> None:
    with pytest.raises(BodyTooLarge, match="More than 1,000 bytes"):
        await any_store.write(pieces(b"x" * 600, b"x" * 600), most=1000)
    with pytest.raises(BodyTooLarge):
        await any_store.write(pieces(*[b"x" * BLOCK] * 20), most=2 * PART)
    assert await keys_of(any_store) == []


async def test_a_source_that_fails_leaves_nothing(any_store: BlobStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * BLOCK
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        await any_store.write(broken(), most=MOST)
    assert await keys_of(any_store) == []


async def test_a_cancellation_at_any_moment_leaves_all_or_nothing(any_store: BlobStore) -> None:
    for moment in range(12):
        task = asyncio.create_task(any_store.write(pieces(*[b"x" * BLOCK] * (3 if moment % 2 else 10)), most=MOST))
        await asyncio.wait([task], timeout=0.008 * moment)
        task.cancel()
        try:
            stored = await task
        except asyncio.CancelledError:
            assert await keys_of(any_store) == []
        else:
            assert await keys_of(any_store) == [stored.key]
            await any_store.remove(stored.key)


async def test_many_at_once(any_store: BlobStore) -> None:
    stored = await asyncio.gather(*(any_store.write(pieces(b"%d" % n), most=10) for n in range(20)))
    assert sorted(each.key for each in stored) == await keys_of(any_store)


async def test_a_probe_leaves_nothing(any_store: BlobStore) -> None:
    await probe(any_store)
    assert await keys_of(any_store) == []
