"""How sandboxes come and go: recycled, cancelled, closed, idle, and dead with their worker."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from penstock.errors import ResourceLimit, Transient
from penstock.extraction.sandbox import pool as module
from penstock.extraction.sandbox.process import ScratchFolder
from penstock.telemetry import render_metrics
from tests.extraction.sandboxes import ROOT, document, make_sandboxes
from tests.polling import until
from tests.processes import start


@pytest.fixture
def file() -> Iterator[BinaryIO]:
    with document() as opened:
        yield opened


def gone(pid: int) -> bool:
    """Dead and reaped: a zombie still answers."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_recycled_by_count(file: BinaryIO) -> None:
    async with make_sandboxes(recycle_after=3) as sandboxes:
        pids = [await sandboxes.call("pid", file, {}) for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


async def test_recycled_by_the_memory_that_it_keeps(file: BinaryIO) -> None:
    async with make_sandboxes(memory=256 * 2**20) as sandboxes:
        small = await sandboxes.call("keep", file, {"size": 2**20})
        assert await sandboxes.call("keep", file, {"size": 150 * 2**20}) == small
        assert await sandboxes.call("pid", file, {}) != small


async def test_free_memory_stays_for_the_next_task_and_goes_back_when_none_comes(file: BinaryIO) -> None:
    async with make_sandboxes(memory=2**30) as sandboxes:
        told = await sandboxes.call("borrow", file, {"pieces": 100})
        first, again = told["faults"]
        assert again < first / 4, "what was free was used again, and not asked of the system"
        sandbox = psutil.Process(told["pid"])
        await until(lambda: sandbox.memory_info().rss < 60 * 2**20, within=5)
        assert await sandboxes.call("pid", file, {}) == told["pid"]


async def test_a_sandbox_that_has_had_much_gives_it_back_before_it_answers(file: BinaryIO) -> None:
    async with make_sandboxes(memory=256 * 2**20) as sandboxes:
        pids = {(await sandboxes.call("borrow", file, {"pieces": 120}))["pid"] for _ in range(3)}
    assert len(pids) == 1, "it is not taken for one that keeps too much"


async def test_cancelled(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        pid = await sandboxes.call("pid", file, {})
        begun = asyncio.Event()
        calling = asyncio.create_task(sandboxes.call("sleep", file, {}, progress=lambda *_: begun.set()))
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await until(lambda: gone(pid), within=2)
        assert await sandboxes.call("pid", file, {}) != pid


async def test_cancelled_while_it_starts(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        calling = asyncio.create_task(sandboxes.call("pid", file, {}))
        await until(lambda: bool(sandboxes._busy))
        [child] = sandboxes._busy
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await until(lambda: gone(child.pid), within=2)


async def test_cancelled_while_it_waits_for_its_turn(file: BinaryIO) -> None:
    async with make_sandboxes(children=1) as sandboxes:
        begun = asyncio.Event()
        first = asyncio.create_task(sandboxes.call("sleep", file, {"seconds": 0.2}, progress=lambda *_: begun.set()))
        await begun.wait()
        second = asyncio.create_task(sandboxes.call("pid", file, {}))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        pid = await first
        assert await sandboxes.call("pid", file, {}) == pid


async def test_close_ends_everything_soon(file: BinaryIO) -> None:
    sandboxes = make_sandboxes()
    idle = await sandboxes.call("ocr", file, {})
    begun = asyncio.Event()
    calling = asyncio.create_task(sandboxes.call("sleep", file, {}, progress=lambda *_: begun.set()))
    await begun.wait()
    busy = [child.pid for child in sandboxes._busy]
    await sandboxes.close()
    assert all(map(gone, [idle, *busy]))
    with pytest.raises(Transient, match="The worker is stopping"):
        await calling
    with pytest.raises(Transient, match="The worker is stopping"):
        await sandboxes.call("pid", file, {})
    await sandboxes.close()


async def test_close_does_not_wait_for_a_sink(file: BinaryIO) -> None:
    sandboxes = make_sandboxes()
    begun, released = asyncio.Event(), asyncio.Event()

    async def sink(header: object, pieces: object) -> None:
        begun.set()
        await released.wait()

    calling = asyncio.create_task(sandboxes.call("parts", file, {"count": 1, "size": 5_000_000}, sink=sink))
    await begun.wait()
    async with asyncio.timeout(5):
        await sandboxes.close()
    released.set()
    with pytest.raises(Transient):
        await calling


async def test_a_child_that_nobody_needs_ends(file: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_FOR", 0.2)
    async with make_sandboxes() as sandboxes:
        pid = await sandboxes.call("pid", file, {})
        await until(lambda: gone(pid), within=3)
        assert await sandboxes.call("pid", file, {}) != pid


async def test_a_child_that_died_while_idle_is_nobodys_crash(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        pid = await sandboxes.call("pid", file, {})
        os.kill(pid, signal.SIGKILL)
        await until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        assert await sandboxes.call("pid", file, {}) != pid


async def test_a_kill_from_outside_is_a_limit(file: BinaryIO) -> None:
    """The kernel does it when memory runs out."""
    async with make_sandboxes() as sandboxes:
        pid = await sandboxes.call("pid", file, {})
        with pytest.raises(ResourceLimit, match=r"^The system killed the reader"):
            await sandboxes.call("sleep", file, {}, progress=lambda *_: os.kill(pid, signal.SIGKILL))


async def test_no_descriptor_and_no_process_is_left(file: BinaryIO) -> None:
    async def round_of_calls() -> None:
        async with make_sandboxes(recycle_after=2) as sandboxes:
            for task in ("pid", "refuse", "crash", "pid", "leave", "parts"):
                calls = [sandboxes.call(task, file, {"code": 0, "count": 1, "size": 1}) for _ in range(2)]
                await asyncio.gather(*calls, return_exceptions=True)

    await round_of_calls()  # the loop's own threads and sockets come with the first one
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    await round_of_calls()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert [one for one in psutil.Process().children() if _is_sandbox(one)] == []


def _is_sandbox(process: psutil.Process) -> bool:
    """A zombie is of another test's: ours are reaped before a call ends."""
    try:
        return "penstock.extraction.sandbox" in " ".join(process.cmdline())
    except psutil.ZombieProcess:
        return False


async def test_a_child_that_cannot_start_is_not_the_documents_fault(
    file: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    async with make_sandboxes() as sandboxes:
        with pytest.raises(Transient, match=r"^A sandbox process did not start \(exit code 1\)\.$"):
            await sandboxes.call("pid", file, {})
    monkeypatch.setattr("sys.executable", "/no/such/python")
    async with make_sandboxes() as sandboxes:
        with pytest.raises(Transient, match=r"^A sandbox process cannot be started: No such file or directory\.$"):
            await sandboxes.call("pid", file, {})


WORKER = """
import asyncio, sys, tempfile
from tests.extraction.sandboxes import make_sandboxes

async def main():
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        sandboxes = make_sandboxes()
        print("idle", await sandboxes.call("ocr", file, {}), flush=True)
        calling = asyncio.create_task(sandboxes.call(sys.argv[1], file, {}, progress=lambda *_: begun.set()))
        begun = asyncio.Event()
        await begun.wait()
        for child in sandboxes._busy:
            print("busy", child.pid, flush=True)
        await calling

asyncio.run(main())
"""


async def test_children_die_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    async with start(str(script), "sleep", environ={"PYTHONPATH": str(ROOT)}) as worker:
        printed = await worker.until("busy")
        pids = [int(line.split()[1]) for line in printed.splitlines() if line.startswith(("idle", "busy"))]
        assert len(pids) == 2
        assert not any(map(gone, pids))
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: all(map(gone, pids)), within=5)


async def test_what_a_killed_worker_left_on_disk_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    in_use = ScratchFolder()
    left, new = tmp_path / "penstock-sandbox-left", tmp_path / "penstock-sandbox-new"
    for folder in (left, new):
        folder.mkdir()
        (folder / "file").write_text("x")
    for folder in (left, in_use.folder):
        os.utime(folder, (0, 0))
    another = ScratchFolder()
    assert sorted(tmp_path.iterdir()) == sorted([in_use.folder, new, another.folder])
    in_use.remove()
    another.remove()
    assert list(tmp_path.iterdir()) == [new]


async def test_tasks_and_ends_are_counted(file: BinaryIO) -> None:
    async with make_sandboxes(recycle_after=1) as sandboxes:
        await sandboxes.call("echo", file, {})
    text = render_metrics().decode()
    assert 'penstock_sandbox_tasks_total{outcome="done",task="echo"}' in text
    assert 'penstock_sandbox_ends_total{why="worn"}' in text
    assert 'penstock_sandbox_task_seconds_count{task="echo"}' in text
