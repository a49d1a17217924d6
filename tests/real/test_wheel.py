"""The wheel, installed into a fresh environment away from the checkout: the command, the demo and the examples run from it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from tests.console import PAGES, run_page

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
EXAMPLES = [path for path in sorted((ROOT / "examples/engine").glob("*.py")) if path.stem != "temporary_home"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an environment that has Penstock from its wheel, and the locked versions of what it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(UV, "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, ROOT)
    [wheel] = folder.glob("penstock-*.whl")
    environment = folder / "env"
    _run(UV, "venv", "--python", sys.executable, environment)
    python = environment / "bin/python"
    _run(UV, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", ROOT / "locks/image.lock")
    _run(UV, "pip", "install", "-q", "--python", python, "--no-deps", wheel)
    shutil.copytree(ROOT / "examples", folder / "examples")
    yield folder
    shutil.rmtree(environment)


def _run(*words: object, within: float = 120, **environ: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd="/",
        env=kept | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=within,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command(installed: Path) -> None:
    assert __version__ in _run(installed / "env/bin/penstock", "--version")
    found = _run(installed / "env/bin/python", "-c", "import penstock; print(penstock.__file__)")
    assert found.startswith(str(installed)), "not the checkout"


def test_the_demo(installed: Path) -> None:
    said = _run(installed / "env/bin/python", installed / "examples/documents/demo.py", within=200)
    assert "The demo took" in said


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example(installed: Path, example: Path, tmp_path: Path) -> None:
    said = _run(installed / "env/bin/python", installed / "examples/engine" / example.name, HOME=str(tmp_path))
    assert said
    assert list(tmp_path.iterdir()) == [], "nothing is written into the home of the user"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page(installed: Path, page: Path, home: Path) -> None:
    run_page(page, home, installed / "env/bin")
