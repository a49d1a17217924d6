"""What is special to a folder: it is durable, and what was not written whole leaves nothing. The rest is in test_store.py."""

import asyncio
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from penstock.blobs import open_store
from penstock.blobs.local import BLOCK, LocalStore
from penstock.errors import BodyTooLarge, StorageFull
from penstock.settings import Settings
from penstock.settings.storage import BlobSettings
from tests.blobs.conftest import keys_of, pieces
from tests.processes import start

MOST = 10_000_000


@pytest.mark.parametrize("sizes", [[], [0], [5], [BLOCK], [BLOCK - 1, 2], [100_000] * 35, [3 * BLOCK + 1]], ids=str)
async def test_what_was_written_is_read(store: LocalStore, sizes: list[int]) -> None:
    contents = [os.urandom(size) for size in sizes]
    whole = b"".join(contents)
    stored = await store.write(pieces(*contents), most=MOST)
    assert (stored.size, stored.digest) == (len(whole), hashlib.sha256(whole).digest())
    assert b"".join([piece async for piece in store.read(stored.key)]) == whole
    assert b"".join([piece async for piece in store.read(stored.key, 3, 1000)]) == whole[3:1000]
    async with store.open(stored.key) as file:
        assert os.fstat(file.fileno()).st_size == len(whole)
    assert await keys_of(store) == [stored.key]
    assert (await asyncio.to_thread(store.path(stored.key).stat)).st_mode & 0o777 == 0o600


async def test_an_endless_body_is_given_up_at_the_limit(store: LocalStore) -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 100_000
            yield b"x" * 100_000

    with pytest.raises(BodyTooLarge):
        await store.write(endless(), most=1_000_000)
    assert given < 1_000_000 + 4 * BLOCK


async def test_a_cancelled_write_leaves_nothing(store: LocalStore) -> None:
    begun = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        for _ in range(3):  # when the fourth is asked for, the first is written
            yield b"x" * (2 * BLOCK)
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(store.write(stuck(), most=MOST))
    await begun.wait()
    [key] = await keys_of(store)
    assert key.endswith(".part")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await keys_of(store) == []
    assert not [link for link in map(_target, Path("/proc/self/fd").iterdir()) if ".part" in link]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # of the look itself
        return ""


async def test_a_cancellation_at_any_moment_leaves_all_or_nothing(store: LocalStore) -> None:
    for moment in range(40):
        task = asyncio.create_task(store.write(pieces(*[b"x" * BLOCK] * 3), most=MOST))
        for _ in range(moment):
            await asyncio.sleep(0)
            if moment % 3 == 0:
                await asyncio.sleep(0.0005)
        task.cancel()
        try:
            stored = await task
        except asyncio.CancelledError:
            assert await keys_of(store) == []
        else:
            assert await keys_of(store) == [stored.key]
            await store.remove(stored.key)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("making a small disk takes root and `mount`")
    made = subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_refuses_and_keeps_what_it_has(small_disk: Path) -> None:
    store = LocalStore(small_disk / "blobs")
    stored = await store.write(pieces(b"x" * 1000), most=MOST)
    with pytest.raises(StorageFull, match="no room left") as caught:
        await store.write(pieces(*[b"x" * BLOCK] * 8), most=MOST)
    assert str(small_disk) in str(caught.value)
    assert await keys_of(store) == [stored.key]
    assert (await store.write(pieces(b"x" * BLOCK), most=MOST)).size == BLOCK  # the room was given back


async def test_a_file_beyond_the_process_limit_is_refused(store: LocalStore) -> None:
    """Like a quota, for who is not root: the kernel says no in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * BLOCK, hard))
    try:
        with pytest.raises(StorageFull):
            await store.write(pieces(*[b"x" * BLOCK] * 5), most=MOST)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await keys_of(store) == []


KILLED = """
import asyncio, sys
from pathlib import Path
from penstock.blobs.local import LocalStore

async def pieces():
    for number in range(1_000_000):
        yield b"x" * 2_000_000
        if number == 3:
            print("writing", flush=True)
            await asyncio.sleep(60)

asyncio.run(LocalStore(Path(sys.argv[1])).write(pieces(), most=2**40))
"""


async def test_a_killed_writer_leaves_a_part_that_is_no_key(store: LocalStore, tmp_path: Path) -> None:
    async with start("-c", KILLED, str(store.folder), environ={}, cwd=tmp_path) as writer:
        await writer.until("writing")
        os.kill(writer.pid, signal.SIGKILL)
        await writer.end(10)
    [left] = await keys_of(store)
    assert left.endswith(".part")
    await store.remove(left)
    assert await keys_of(store) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_key_is_durable_before_it_is_known(store: LocalStore) -> None:
    """The file, then its name, then the folder: in this order, and each synced."""
    program = (
        "import asyncio, pathlib, sys\n"
        "from penstock.blobs.local import LocalStore\n"
        "async def one():\n    yield b'x'\n"
        "asyncio.run(LocalStore(pathlib.Path(sys.argv[1])).write(one(), most=9))\n"
    )
    traced = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=fsync,rename,openat", sys.executable, "-c", program, str(store.folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    calls = [line for line in traced.stderr.splitlines() if "fsync(" in line or "rename(" in line]
    assert [line.split("(")[0].split()[-1] for line in calls][-3:] == ["fsync", "rename", "fsync"]


def test_the_folder_is_a_setting(tmp_path: Path) -> None:
    chosen = open_store(Settings(home=tmp_path, blobs=BlobSettings(folder=tmp_path / "elsewhere")))
    assert isinstance(chosen, LocalStore)
    assert chosen.folder == tmp_path / "elsewhere"
    usual = open_store(Settings(home=tmp_path))
    assert isinstance(usual, LocalStore)
    assert usual.folder == tmp_path / "blobs"


async def test_a_file_whose_reader_was_cancelled_while_it_was_opened_is_closed(store: LocalStore) -> None:
    key = "ab" + "0" * 30
    path = store.path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)  # opening it takes until there is a writer

    async def read() -> None:
        async with store.open(key):
            raise AssertionError("it was cancelled before")

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    writer = await asyncio.to_thread(os.open, path, os.O_WRONLY)  # now the thread has the file
    try:
        with pytest.raises(BrokenPipeError):  # from when it is closed
            while True:
                os.write(writer, b"x")
                await asyncio.sleep(0.01)
    finally:
        os.close(writer)
