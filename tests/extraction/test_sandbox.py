"""A task in a sandbox: its result, its errors as names and sentences, its crashes."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import BinaryIO

import pytest
import uvloop

from penstock.errors import Corrupt, Encrypted, TooMuch, Transient
from penstock.extraction import SandboxPool
from penstock.extraction.sandbox import protocol
from penstock.extraction.sandbox.exchange import FrameStream
from penstock.extraction.sandbox.protocol import Reply, plain
from tests.extraction.sandboxes import document, make_sandboxes


@pytest.fixture
async def sandboxes() -> AsyncIterator[SandboxPool]:
    async with make_sandboxes() as opened:
        yield opened


@pytest.fixture
def file() -> Iterator[BinaryIO]:
    with document() as opened:
        yield opened


async def test_a_task_gets_the_file_and_its_arguments(sandboxes: SandboxPool, file: BinaryIO) -> None:
    answer = await sandboxes.call("echo", file, {"limits": {"pages": 3}, "name": "naïve.pdf"})
    assert answer["content"] == "a document"
    assert answer["arguments"] == {"limits": {"pages": 3}, "name": "naïve.pdf"}
    assert answer["pid"] != os.getpid()


async def test_the_file_is_read_from_its_beginning_and_its_position_stays(
    sandboxes: SandboxPool, file: BinaryIO
) -> None:
    file.seek(5)
    answers = await asyncio.gather(*(sandboxes.call("echo", file, {}) for _ in range(4)))
    assert {answer["content"] for answer in answers} == {"a document"}
    assert file.tell() == 5


async def test_a_process_with_thousands_of_open_files_has_readers(file: BinaryIO) -> None:
    """The socket of a child has the number that it has in the parent, here one that select cannot take."""
    with ExitStack() as opened:
        for _ in range(1100):
            opened.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        async with make_sandboxes() as sandboxes:
            assert (await sandboxes.call("echo", file, {}))["content"] == "a document"


async def test_one_child_does_one_task_after_the_other(sandboxes: SandboxPool, file: BinaryIO) -> None:
    assert len({await sandboxes.call("pid", file, {}) for _ in range(20)}) == 1


async def test_eight_calls_share_the_children(file: BinaryIO) -> None:
    async with make_sandboxes(children=3) as sandboxes:
        answers = await asyncio.gather(*(sandboxes.call("sleep", file, {"seconds": 0.1}) for _ in range(8)))
    assert len(answers) == 8
    assert len(set(answers)) == 3


async def test_ocr_has_children_of_its_own(sandboxes: SandboxPool, file: BinaryIO) -> None:
    reader, ocr = await sandboxes.call("pid", file, {}), await sandboxes.call("ocr", file, {})
    assert reader != ocr
    assert (await sandboxes.call("pid", file, {}), await sandboxes.call("ocr", file, {})) == (reader, ocr)


async def test_never_more_tasks_than_children_over_both_classes(file: BinaryIO) -> None:
    async with make_sandboxes(children=1) as sandboxes:
        sleeping = asyncio.create_task(sandboxes.call("sleep", file, {"seconds": 0.3}))
        await asyncio.sleep(0)
        began = time.monotonic()
        await sandboxes.call("ocr", file, {})
        assert time.monotonic() - began > 0.25
        await sleeping


async def test_the_error_that_a_reader_raises_comes_back(sandboxes: SandboxPool, file: BinaryIO) -> None:
    with pytest.raises(Encrypted, match=r"^encrypted: a password is needed$"):
        await sandboxes.call("refuse", file, {})
    before = await sandboxes.call("pid", file, {})
    with pytest.raises(Encrypted):
        await sandboxes.call("refuse", file, {})
    assert await sandboxes.call("pid", file, {}) == before, "a refusal is no reason to replace the child"


async def test_an_unexpected_error_is_a_short_sentence_without_paths(sandboxes: SandboxPool, file: BinaryIO) -> None:
    with pytest.raises(Corrupt, match=r"^The reader failed on this file: KeyError: ") as caught:
        await sandboxes.call("stumble", file, {})
    assert len(str(caught.value)) <= 300
    assert ".secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_memory_error_is_a_limit(sandboxes: SandboxPool, file: BinaryIO) -> None:
    with pytest.raises(TooMuch, match=r"extraction\.memory"):
        await sandboxes.call("starve", file, {})


async def test_a_missing_package_is_not_the_documents_fault(sandboxes: SandboxPool, file: BinaryIO) -> None:
    with pytest.raises(Transient, match="no_such_package"):
        await sandboxes.call("lack", file, {})


async def test_a_second_crash_is_the_documents_fault(sandboxes: SandboxPool, file: BinaryIO) -> None:
    with pytest.raises(Corrupt, match=r"^The reader crashed on this file twice \(SIGSEGV\)\.$"):
        await sandboxes.call("crash", file, {})
    with pytest.raises(Corrupt, match=r"^The reader crashed on this file twice \(exit code 3\)\.$"):
        await sandboxes.call("leave", file, {"code": 3})
    assert await sandboxes.call("pid", file, {}), "and nobody else's"


async def test_a_crash_that_a_new_child_does_not_have_is_forgotten(sandboxes: SandboxPool, file: BinaryIO) -> None:
    before = await sandboxes.call("pid", file, {})
    await sandboxes.call("warm", file, {})
    assert await sandboxes.call("crash_if_warm", file, {}) == "alive"
    assert await sandboxes.call("pid", file, {}) != before


async def test_a_result_of_20_mb(sandboxes: SandboxPool, file: BinaryIO) -> None:
    answer = await sandboxes.call("big", file, {"size": 20_000_000})
    assert [page["number"] for page in answer["pages"]] == list(range(len(answer["pages"])))
    assert sum(len(page["text"].encode()) for page in answer["pages"]) > 19_990_000
    assert answer["pages"][-1]["text"].startswith("Zürich, naïve – “words”\n")
    assert answer["empty"] == []
    assert len(answer["single"]) > 900_000


async def test_a_long_result_goes_in_frames_that_are_decoded_soon() -> None:
    """The C decoder of JSON gives nobody else a turn, not even in a thread."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        frames = FrameStream(ours)
        value = {"pages": [{"number": number, "text": "x" * 3000} for number in range(1000)], "title": "y"}
        sending = asyncio.create_task(asyncio.to_thread(Reply(theirs).result, dict(value)))
        sizes, pages = [], []
        while True:
            kind, body = await frames.next()
            sizes.append(len(body))
            if kind == protocol.RESULT:
                break
            pages += protocol.decode(body)["pages"]
        await sending
    assert max(sizes) < protocol.BATCH_SIZE + 4000
    assert {"pages": pages, "title": protocol.decode(body)["title"]} == value


async def test_progress_is_told(sandboxes: SandboxPool, file: BinaryIO) -> None:
    told: list[tuple[int, int]] = []
    await sandboxes.call("count", file, {}, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 5) for done in range(1, 6)]


async def test_a_child_sees_nothing_of_our_environment(file: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://secret")
    async with make_sandboxes() as sandboxes:
        seen = await sandboxes.call("environment", file, {})
    assert "PENSTOCK_DATABASE_URL" not in seen["environ"]
    assert seen["environ"].keys() <= {
        *("LANG", "PATH", "HOME", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS"),
    }
    assert seen["sid"], "a session of its own"
    assert sum(1 for one in seen["fds"] if one and one.endswith(":140000")) == 1, "one socket"
    assert sum(1 for one in seen["fds"] if one and one.endswith(":100000")) == 1, "one file"


async def test_the_scratch_folder_is_empty_for_each_task_and_gone_in_the_end(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        folder, found = await sandboxes.call("litter", file, {})
        assert (folder, found) == (folder, [])
        assert await sandboxes.call("litter", file, {}) == [folder, []]
        assert os.path.isdir(folder)  # noqa: PTH112
    assert not os.path.exists(os.path.dirname(folder))  # noqa: PTH110, PTH120


def test_it_works_on_uvloop(file: BinaryIO) -> None:
    async def body() -> None:
        async with make_sandboxes() as sandboxes:
            assert (await sandboxes.call("echo", file, {}))["content"] == "a document"
            assert len((await sandboxes.call("big", file, {"size": 3_000_000}))["pages"]) > 100
            with pytest.raises(Corrupt, match="SIGSEGV"):
                await sandboxes.call("crash", file, {})

    uvloop.run(body())


def test_a_sentence_is_one_plain_line() -> None:
    assert plain("\n  first\tline\x1b[31m \nsecond") == "first line [31m"
    assert plain("cannot open /var/lib/penstock/blobs/ab: no") == "cannot open …: no"
    assert plain("and/or 3/4 of a/b") == "and/or 3/4 of a/b"
    assert len(plain("x" * 10_000)) == 300
