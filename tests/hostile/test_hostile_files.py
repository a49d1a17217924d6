"""Every hostile file through real sandboxes: each ends in time with a text or a sentence, and the sandboxes stay usable."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from penstock.extraction import SandboxPool
from penstock.settings import Settings
from penstock.settings.settings import ExtractionSettings
from tests.hostile import images, mails, markup, pdfs
from tests.hostile.file import File
from tests.hostile.files import FAMILIES, hostile_files, write_files
from tests.hostile.good import GOOD
from tests.hostile.trial import Trial, try_file
from tests.hostile.verdict import complaints

PAGE = Path(__file__).parents[2] / "docs/hostile.md"
CORPUS = Path(__file__).parents[2].parent / "shared/corpus/hostile"
TIMEOUT = timedelta(seconds=8)  # of processor time; the sandbox gives up after three times as long by the clock
CALL_WITHIN = 25.0
MEMORY_MOST = 1.3 * 2**30  # of one child: extraction.memory is 1 GB, and it is looked at 20 times a second


def named(family: ModuleType) -> str:
    return family.__name__.rpartition(".")[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("family", FAMILIES, ids=named)
async def test_hostile_files_end_in_time_with_a_sentence(family: ModuleType, tmp_path: Path) -> None:
    files = {file.name: file for file in family.files()}
    assert len(files) >= 20
    for file in files.values():
        (tmp_path / file.name).write_bytes(file.content())
    found = []
    for trial in await try_all(tmp_path, (tmp_path / name for name in files)):
        found += complaints(trial, files[trial.name])
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason=f"{CORPUS} is not there")
async def test_the_hostile_corpus_ends_in_time_with_a_sentence(tmp_path: Path) -> None:
    found = []
    for trial in await try_all(tmp_path, sorted(CORPUS.iterdir())):
        found += complaints(trial)
    assert not found, "\n".join(found)


async def try_all(home: Path, paths: Iterable[Path]) -> list[Trial]:
    """Each once, two at a time; memory and time are checked here, and that the sandboxes can go on afterwards."""
    settings = Settings(home=home, extraction=ExtractionSettings(children=2, timeout=TIMEOUT))
    waiting, trials = list(paths)[::-1], []

    async def work() -> None:
        while waiting:
            trials.append(await try_file(sandboxes, waiting.pop()))

    async with SandboxPool(settings) as sandboxes, watched_memory() as largest:
        await asyncio.gather(work(), work())
        await still_read(sandboxes, home)
    assert max(largest) < MEMORY_MOST
    assert [f"{trial.name}: {trial.longest_call:.0f} s" for trial in trials if trial.longest_call > CALL_WITHIN] == []
    assert children() == []
    return trials


async def still_read(sandboxes: SandboxPool, home: Path) -> None:
    for extension in ("txt", "pdf", "docx", "png"):
        path = home / f"afterwards.{extension}"
        path.write_bytes(GOOD[extension]())
        trial = await try_file(sandboxes, path)
        assert trial.ready, trial.error
        assert "water" in trial.text.lower()


def children() -> list[psutil.Process]:
    """All below us but the database server and the fork server, which are there for the whole run."""
    return [child for child in psutil.Process().children(recursive=True) if is_sandbox(child)]


def is_sandbox(process: psutil.Process) -> bool:
    try:
        return "postgres" not in process.name() and "tests.fork_server" not in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie is one, too
        return False


@asynccontextmanager
async def watched_memory() -> AsyncIterator[list[int]]:
    """The largest resident size of a child, seen from outside."""
    seen = [0]

    async def watch() -> None:
        while True:
            for child in children():
                try:
                    seen[0] = max(seen[0], child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()


async def test_the_page_says_what_is_said(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    files = {file.name: file for file in hostile_files()}
    assert len(rows) >= 20
    for name, _, _ in rows:
        (tmp_path / name).write_bytes(files[name].content())
    trials = await try_all(tmp_path, [tmp_path / name for name, _, _ in rows])
    said = {trial.name: (trial.name, type(trial.error).__name__, str(trial.error)) for trial in trials}
    assert [said[name] for name, _, _ in rows] == rows


def test_there_are_enough_of_them_and_each_has_its_name() -> None:
    names = [file.name for file in hostile_files()]
    assert len(names) >= 500
    assert len(names) == len(set(names))
    assert {file.expect for file in hostile_files()} == {"ready", "failed", "either"}


@pytest.mark.slow
@pytest.mark.parametrize("family", [pdfs, images, markup, mails], ids=named)
def test_hostile_files_are_always_the_same(family: ModuleType) -> None:
    def digests() -> list[str]:
        return [hashlib.sha256(file.content()).hexdigest() for file in family.files()]

    assert digests() == digests()


@pytest.mark.slow
def test_write_files_stays_small(tmp_path: Path) -> None:
    written = write_files(tmp_path)
    assert sum(path.stat().st_size for path in written.values()) < 60_000_000
    assert all(isinstance(file, File) for file in written)
