"""What a task may take: memory, processor time, the clock, processes, and what a lying sandbox can make the parent keep."""

import asyncio
import resource
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import BinaryIO

import pytest

from penstock.errors import Corrupt, ResourceLimit, TooMuch
from penstock.extraction.sandbox import protocol, seccomp
from penstock.extraction.sandbox.exchange import FrameStream
from penstock.extraction.sandbox.monitor import overtime
from tests.extraction.sandboxes import document, make_sandboxes

SHORT = timedelta(seconds=0.4)


@pytest.fixture
def file() -> Iterator[BinaryIO]:
    with document() as opened:
        yield opened


async def test_more_memory_than_allowed(file: BinaryIO) -> None:
    async with make_sandboxes(memory=128 * 2**20) as sandboxes:
        with pytest.raises(
            TooMuch, match=r"^Reading the file needed more than 128MB of memory \(extraction\.memory\)\.$"
        ):
            await sandboxes.call("hog", file, {})
        assert await sandboxes.call("pid", file, {})


async def test_memory_that_is_taken_faster_than_anybody_can_watch(file: BinaryIO) -> None:
    """The kernel refuses it."""
    async with make_sandboxes(memory=128 * 2**20) as sandboxes:
        with pytest.raises(TooMuch, match=r"^Reading the file needs more memory than a reader may use"):
            await sandboxes.call("grab", file, {"size": 4 * 2**30})


async def test_processor_time(file: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "penstock.extraction.sandbox.monitor.PATIENCE", 100
    )  # on a busy machine the clock would come first
    async with make_sandboxes(timeout=SHORT) as sandboxes:
        with pytest.raises(TooMuch, match=r"^Reading the file needed more than 400ms of processor time"):
            await sandboxes.call("spin", file, {})
        with pytest.raises(TooMuch, match=r"^Reading the file needed more than 200ms of processor time"):
            await sandboxes.call("spin", file, {}, timeout=0.2)


@pytest.mark.parametrize(
    ("cpu", "clock", "still", "reason"),
    [
        (19, 39, 9, None),  # a busy machine: it works whenever it may
        (0, 19, 19, None),
        (21, 21, 0, "Reading the file needed more than 20s of processor time (extraction.timeout)."),
        (5, 41, 1, "Reading the file took longer than 40s (2 times extraction.timeout)."),
        (5, 21, 11, "Reading the file made no progress, and was ended after 20s (extraction.timeout)."),
    ],
)
def test_overtime(cpu: float, clock: float, still: float, reason: str | None) -> None:
    found = overtime(20, cpu=cpu, clock=clock, still=still)
    assert (None if found is None else str(found)) == reason


async def test_standing_still(file: BinaryIO) -> None:
    async with make_sandboxes(timeout=SHORT) as sandboxes:
        began = time.monotonic()
        with pytest.raises(ResourceLimit, match=r"^Reading the file made no progress, and was ended after 400ms"):
            await sandboxes.call("sleep", file, {})
        assert time.monotonic() - began >= 0.4


async def test_the_time_in_which_this_process_was_away_does_not_count(file: BinaryIO) -> None:
    async with make_sandboxes(timeout=timedelta(seconds=2)) as sandboxes:
        begun = asyncio.Event()
        calling = asyncio.create_task(sandboxes.call("sleep", file, {"seconds": 2.8}, progress=lambda *_: begun.set()))
        await begun.wait()
        time.sleep(2.5)  # noqa: ASYNC251  as if stopped
        assert await calling


async def test_a_slow_sink_does_not_count(file: BinaryIO) -> None:
    async def sink(header: dict[str, object], pieces: object) -> None:
        await asyncio.sleep(0.6)

    async with make_sandboxes(timeout=timedelta(seconds=0.2)) as sandboxes:
        answer = await sandboxes.call("parts", file, {"count": 2, "size": 3_000_000}, sink=sink)
    assert answer == {"members": 2}


async def test_a_file_larger_than_the_memory_cannot_be_written(file: BinaryIO) -> None:
    async with make_sandboxes(memory=128 * 2**20) as sandboxes:
        assert await sandboxes.call("large_file", file, {"size": 128 * 2**20}) == "written"
        with pytest.raises(Corrupt, match="File too large"):
            await sandboxes.call("large_file", file, {"size": 128 * 2**20 + 1})


@pytest.mark.parametrize(("files", "size"), [(20, 8 * 2**20), (2_100, 1)], ids=["bytes", "files"])
async def test_the_disk_cannot_be_filled(file: BinaryIO, files: int, size: int) -> None:
    async with make_sandboxes(memory=128 * 2**20) as sandboxes:
        with pytest.raises(TooMuch, match=r"^Reading the file wrote more than 128MB to the disk"):
            await sandboxes.call("fill", file, {"files": files, "size": size})


@pytest.mark.skipif(not seccomp.available(), reason="no system call filter for this architecture")
async def test_no_processes_and_no_programs(file: BinaryIO) -> None:
    """By the filter of system calls (EPERM): the files of the programs may be within reach."""
    async with make_sandboxes() as sandboxes:
        assert await sandboxes.call("start", file, {}) == dict.fromkeys(("fork", "spawn", "exec", "program"), "EPERM")
        assert await sandboxes.call("thread", file, {}) == "threads work"


# Sandboxes that lie


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(protocol.HEADER.pack(b"R", 2**32 - 1), id="a huge length"),
        pytest.param(protocol.HEADER.pack(b"B", 2**21), id="a large piece"),
        pytest.param(b"\0" * 100, id="zeros"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(protocol.pack(b"R", b"{not json"), id="no JSON"),
        pytest.param(protocol.pack(b"R", b"[" * 100_000), id="deep JSON"),
        pytest.param(protocol.pack(b"X", b"[]"), id="an error without fields"),
        pytest.param(protocol.pack(b"P", b"{}"), id="a part that nobody wants"),
        pytest.param(protocol.pack(b"B", b"x"), id="a piece of nothing"),
        pytest.param(protocol.pack(b"M", b'{"pages": 3}'), id="a batch that is none"),
        pytest.param(protocol.pack(b"M", b'{"pages": []}') + protocol.pack(b"R", b"3"), id="a batch of nothing"),
        pytest.param(protocol.pack(b"G", b'{"done": -1, "total": "x"}'), id="a progress that cannot be"),
        pytest.param(protocol.pack(b"H", b"{}"), id="a second hello"),
    ],
)
async def test_nonsense(file: BinaryIO, said: bytes) -> None:
    async with make_sandboxes() as sandboxes:
        with pytest.raises(Corrupt, match=r"^The reader broke its protocol on this file"):
            await sandboxes.call("say", file, {"hex": said.hex()})
        assert await sandboxes.call("pid", file, {})


async def test_an_unknown_error_is_corrupt(file: BinaryIO) -> None:
    said = protocol.pack(b"X", protocol.encode({"error": "SystemExit", "message": "bye\nbye" + "x" * 5000}))
    async with make_sandboxes() as sandboxes:
        with pytest.raises(Corrupt, match=r"^bye$"):
            await sandboxes.call("say", file, {"hex": said.hex(), "silence": 0})


async def test_silence_in_the_middle_of_a_frame(file: BinaryIO) -> None:
    async with make_sandboxes(timeout=SHORT) as sandboxes:
        with pytest.raises(ResourceLimit, match="made no progress"):
            await sandboxes.call("say", file, {"hex": protocol.HEADER.pack(b"R", 2**20).hex()})


async def test_endless_results_are_cut_off(file: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.extraction.sandbox.exchange.MOST_RESULT", 2**24)
    batch = protocol.pack(b"M", b'{"pages": ["' + b"x" * 10_000 + b'"]}')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with make_sandboxes() as sandboxes:
        with pytest.raises(TooMuch, match=r"^The text of the document is larger than 16MB\.$"):
            await sandboxes.call("say", file, {"hex": batch.hex(), "times": 100_000})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 2**10


async def test_a_flood_of_frames_leaves_the_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receiving from a socket that always has something never waits, and would keep the loop for itself."""
    others = 0

    class Flood:
        async def sock_recv(self, connection: socket.socket, most: int) -> bytes:
            return protocol.pack(b"G", b"{}")

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = FrameStream(ours)
        monkeypatch.setattr(frames, "_loop", Flood())
        beside = asyncio.create_task(other())
        for _ in range(1000):
            await frames.next()
        beside.cancel()
    assert others > 10


async def test_endless_small_frames_are_cut_off(file: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.extraction.sandbox.exchange.MOST_FRAMES", 5_000)
    flood = protocol.pack(b"G", b'{"done":1,"total":1}') * 1000
    async with make_sandboxes() as sandboxes:
        with pytest.raises(TooMuch):
            await sandboxes.call("say", file, {"hex": flood.hex(), "times": 100})


async def test_a_word_too_many_costs_the_sandbox_its_place(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        before = await sandboxes.call("pid", file, {})
        assert await sandboxes.call("say_more", file, {}) == "first"
        await asyncio.sleep(0)
        assert await sandboxes.call("pid", file, {}) != "second"
        assert await sandboxes.call("pid", file, {}) != before


async def test_a_late_word_is_not_taken_for_the_next_documents_result(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        before = await sandboxes.call("lag", file, {})
        assert await sandboxes.call("pid", file, {}) not in {before, "late"}
