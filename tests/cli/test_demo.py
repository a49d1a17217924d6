"""`./dev demo` does what it promises, leaves nothing behind, and its documents come out of their script."""

import asyncio
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import clean_environ

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/documents"
DRAWN = "maintenance-log.pdf"  # by a font and as JPEG, whose bytes may differ from machine to machine


def make() -> dict[str, bytes]:
    sys.path.insert(0, str(FOLDER))
    try:
        made: dict[str, bytes] = runpy.run_path(str(FOLDER / "make.py"))["make"]()
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("story", "ooxml"):
            sys.modules.pop(name, None)
    return made


def test_the_documents_are_those_of_the_script() -> None:
    made, again = make(), make()
    assert made == again
    assert {path.name for path in (FOLDER / "mill").iterdir()} == set(made)
    for name, content in made.items():
        assert name == DRAWN or (FOLDER / "mill" / name).read_bytes() == content, name
    assert sum(path.stat().st_size for path in (FOLDER / "mill").iterdir()) < 300_000


async def start_demo(place: Path) -> asyncio.subprocess.Process:
    """As ./dev starts it, but that its folder is made where we can look for it; the server must get in, too."""
    place.chmod(0o711)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(FOLDER / "demo.py"),
        env=clean_environ({"TMPDIR": str(place)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-demo-test-") as folder:
        yield Path(folder)


@pytest.mark.slow
async def test_the_demo(place: Path) -> None:
    demo = await start_demo(place)
    async with asyncio.timeout(110):  # 90 s are promised for two cores that have nothing else to do
        printed, _ = await demo.communicate()
    said = printed.decode()
    assert demo.returncode == 0, said
    for expected in ("Accepted 10 documents", "9 ready", "2 failed", "$ penstock search", "$ penstock why", "next"):
        assert expected in said, said
    assert list(place.iterdir()) == []


@pytest.mark.slow
async def test_an_interrupted_demo_leaves_nothing_behind(place: Path) -> None:
    demo = await start_demo(place)
    assert demo.stdout is not None
    async with asyncio.timeout(60):
        while b"Penstock is up" not in (line := await demo.stdout.readline()):
            assert line, "it ended before Penstock was up"
        family = psutil.Process(demo.pid).children(recursive=True)
        assert family
        os.killpg(demo.pid, signal.SIGINT)
        await demo.communicate()
    assert demo.returncode == 130
    assert list(place.iterdir()) == []
    gone, alive = psutil.wait_procs(family, timeout=10)
    assert alive == [], gone
