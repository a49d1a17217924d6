"""What is special to a bucket: uploads in parts, bounded memory, files in the scratch, a network that fails, secrets."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.blobs import BlobStore, cloud, open_store
from penstock.blobs.cloud import PART, CloudStore
from penstock.errors import BadSetting, BodyTooLarge, StorageFull, Transient
from penstock.settings import Settings, load_settings
from penstock.settings.loader import describe
from penstock.settings.settings import LimitSettings
from penstock.settings.storage import BlobSettings, parse_options
from tests.blobs.conftest import keys_of, pieces
from tests.blobs.servers import SECRET, Cloud

BLOCK = 1024 * 1024
INITIATED = b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>"
Answer = Callable[[str, str], Awaitable[tuple[int, bytes]]]


@asynccontextmanager
async def bucket_that(answer: Answer, home: Path) -> AsyncIterator[BlobStore]:
    """A server that speaks just enough HTTP to fail as clouds do."""
    connections: list[asyncio.Task[None] | None] = []  # the loop holds tasks weakly: one that hangs would be collected

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                method, target, _ = head.split(" ", 2)
                sizes = [line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length")]
                await reader.readexactly(int(sizes[0]) if sizes else 0)
                status, body = await answer(method, target)
                writer.write(b'HTTP/1.1 %d X\r\nETag: "e"\r\nContent-Length: %d\r\n\r\n' % (status, len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Cloud("s3://bucket", f"http://127.0.0.1:{port}", f"access_key_id=a secret_access_key={SECRET}").open(
            home, "p"
        )
    finally:
        server.close()
        for connection in filter(None, connections):
            connection.cancel()
            await connection


async def test_what_was_begun_and_not_ended_is_taken_back(s3: Cloud, tmp_path: Path) -> None:
    store = s3.open(tmp_path, "begun")
    with pytest.raises(BodyTooLarge):
        await store.write(pieces(*[b"x" * BLOCK] * 20), most=2 * PART)
    begun = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * BLOCK
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(store.write(stuck(), most=10 * PART))
    await begun.wait()
    assert s3.unfinished() == 1  # else this shows nothing
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert s3.unfinished() == 0
    assert await keys_of(store) == []


async def test_a_slow_bucket_holds_its_writer_back(tmp_path: Path) -> None:
    asked, given = asyncio.Event(), 0
    go = asyncio.Event()

    async def answer(method: str, target: str) -> tuple[int, bytes]:
        if target.endswith("?uploads="):
            return 200, INITIATED
        if "partNumber" in target:
            asked.set()
            await go.wait()
        return 200, b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"

    async def source() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(60):
            given += BLOCK
            yield b"x" * BLOCK

    async with bucket_that(answer, tmp_path) as store:
        task = asyncio.create_task(store.write(source(), most=2**30))
        await asked.wait()
        await asyncio.wait([task], timeout=1)  # time to take more than it may
        assert PART <= given <= 2 * PART + 4 * BLOCK
        go.set()
        assert (await task).size == 60 * BLOCK


@pytest.mark.parametrize(
    ("status", "code"), [(400, "XMinioAdminBucketQuotaExceeded"), (400, "XMinioStorageFull"), (403, "QuotaExceeded")]
)
async def test_a_full_bucket(tmp_path: Path, status: int, code: str) -> None:
    async def answer(method: str, target: str) -> tuple[int, bytes]:
        return (status, f"<Error><Code>{code}</Code></Error>".encode()) if method == "PUT" else (204, b"")

    async with bucket_that(answer, tmp_path) as store:
        with pytest.raises(StorageFull, match=r"s3://bucket/p has no room left for documents"):
            await store.write(pieces(b"x"), most=1)


async def test_a_part_that_fails_ends_the_write_at_once(tmp_path: Path) -> None:
    taken_back = asyncio.Event()

    async def answer(method: str, target: str) -> tuple[int, bytes]:
        if method == "DELETE":
            taken_back.set()
        return (200, INITIATED) if target.endswith("?uploads=") else (403, b"<Error><Code>AccessDenied</Code></Error>")

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * BLOCK

    async with bucket_that(answer, tmp_path) as store:
        with pytest.raises(Transient, match="Writing to s3://bucket/p failed"):
            await asyncio.wait_for(store.write(endless(), most=2**40), 20)
        assert taken_back.is_set()


async def test_a_bucket_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "RETRY", {"max_retries": 0})
    store = Cloud("s3://bucket", "http://127.0.0.1:9", f"access_key_id=a secret_access_key={SECRET}").open(
        tmp_path, "p"
    )
    for call in (store.write(pieces(b"x"), most=1), store.remove("a" * 32), keys_of(store), _read(store)):
        with pytest.raises(
            Transient, match=r"s3://bucket/p failed: .*Check blobs.url, its access and the network"
        ) as caught:
            await call
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is None


async def test_a_bucket_that_hangs_ends_with_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "CLIENT", cloud.CLIENT | {"timeout": timedelta(seconds=0.2)})
    monkeypatch.setattr(cloud, "RETRY", {"max_retries": 0})

    async def never(method: str, target: str) -> tuple[int, bytes]:
        await asyncio.Event().wait()
        raise AssertionError

    async with bucket_that(never, tmp_path) as store:
        for call in (store.write(pieces(b"x"), most=1), store.remove("a" * 32), keys_of(store), _read(store)):
            with pytest.raises(Transient, match=r"s3://bucket/p failed: .*Check blobs.url, its access and the network"):
                await asyncio.wait_for(call, 30)


async def _read(store: BlobStore) -> None:
    async with store.open("a" * 32):
        pass


async def test_a_bucket_that_does_not_exist(s3: Cloud, tmp_path: Path) -> None:
    store = Cloud("s3://nothing-here", s3.endpoint, s3.options).open(tmp_path, "p")
    with pytest.raises(Transient, match=r"NoSuchBucket|not found"):
        await store.write(pieces(b"x"), most=1)


async def test_an_open_file_has_no_name_and_a_bound(s3: Cloud, tmp_path: Path) -> None:
    store = s3.open(tmp_path, "opened")
    stored = await store.write(pieces(b"x" * 1000), most=1000)
    async with store.open(stored.key) as file:
        assert os.fstat(file.fileno()).st_nlink == 0
        assert str(tmp_path / "scratch") in str(Path(f"/proc/self/fd/{file.fileno()}").readlink())
    assert file.closed
    settings = s3.settings(tmp_path, "opened").model_copy(update={"limits": LimitSettings(bytes=999)})
    with pytest.raises(BodyTooLarge, match="raise the limit"):
        await _open(open_store(settings), stored.key)


async def _open(store: BlobStore, key: str) -> None:
    async with store.open(key):
        pass


@pytest.mark.parametrize("url", ["s3://b", "az://container/a/b", "gs://bucket/"])
def test_a_url_chooses_a_bucket(tmp_path: Path, url: str) -> None:
    options = {"az": "account_name=a", "gs": "skip_signature=true"}.get(url[:2])
    blobs = BlobSettings.model_validate({"url": url, "options": options})
    assert isinstance(open_store(Settings(home=tmp_path, blobs=blobs)), CloudStore)


@pytest.mark.parametrize(
    ("key", "value"),
    [("url", "ftp://x/y"), ("url", "s3://user:pass@bucket"), ("endpoint", "minio:9000"), ("options", f"{SECRET} a=b")],
)
def test_settings_that_make_no_sense(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(BadSetting, match=rf"blobs\.{key}.*Write ") as caught:
        load_settings(working_folder=tmp_path, environ={"PENSTOCK_HOME": str(tmp_path)}, blobs={key: value})
    assert SECRET not in str(caught.value)


def test_options_are_masked_and_read(tmp_path: Path) -> None:
    environ = {"PENSTOCK_HOME": str(tmp_path), "PENSTOCK_BLOBS__OPTIONS": f"a=b== secret={SECRET}"}
    loaded = load_settings(working_folder=tmp_path, environ=environ)
    assert parse_options(loaded.settings.blobs.options) == {"a": "b==", "secret": SECRET}
    assert SECRET not in str(describe(loaded)) + repr(loaded) + loaded.settings.model_dump_json()


def test_an_option_that_nobody_knows(tmp_path: Path) -> None:
    blobs = BlobSettings.model_validate({"url": "s3://b", "options": f"nonsense={SECRET}"})
    with pytest.raises(BadSetting, match=r"s3://b cannot be opened: .*nonsense.* Check blobs\.url") as caught:
        open_store(Settings(home=tmp_path, blobs=blobs))
    assert SECRET not in str(caught.value)


def test_without_obstore_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    blobs = BlobSettings.model_validate({"url": "s3://b"})
    with pytest.raises(BadSetting, match=r"Install penstock\[cloud\]"):
        open_store(Settings(home=tmp_path, blobs=blobs))
