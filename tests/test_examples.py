"""The examples run to their end by themselves, and print what their pages promise."""

from pathlib import Path

import pytest

from penstock.settings import DatabaseUrl
from penstock.settings.settings import default_home
from tests.processes import start
from tests.slow import slow_but_first

FOLDER = Path(__file__).parents[1] / "examples/engine"
LAST_WORDS = {
    "greet.py": "a\\nb",
    "book.py": "IT WAS A DARK AND STORMY NIGHT. THE END.",
    "nightly.py": "removed: True",
    "careful.py": "answers: 40",
}


def test_every_example_is_here() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {*LAST_WORDS, "temporary_home.py"}


@pytest.mark.slow
async def test_an_example_leaves_nothing_in_the_home_of_its_user(tmp_path: Path) -> None:
    """The home of root is not below $HOME."""
    before = _entries(default_home())
    async with start(str(FOLDER / "greet.py"), environ={"HOME": str(tmp_path)}) as program:
        printed = await program.until("which is removed at the end")
        assert await program.end(100) == 0, program.printed
    assert LAST_WORDS["greet.py"] in program.printed
    used = Path(printed.partition("Working in ")[2].partition(",")[0])
    assert used.name.startswith("penstock-example-")
    assert not used.exists()
    assert [*tmp_path.iterdir()] == []
    assert _entries(default_home()) == before


def _entries(folder: Path) -> dict[str, float] | None:
    return {path.name: path.stat().st_mtime for path in folder.iterdir()} if folder.exists() else None


@pytest.mark.parametrize("name", slow_but_first(LAST_WORDS))
async def test_an_example_runs(name: str, database_url: DatabaseUrl) -> None:
    async with start(str(FOLDER / name), environ={"PENSTOCK_DATABASE_URL": database_url.reveal()}) as program:
        assert await program.end(60) == 0
        assert LAST_WORDS[name] in program.printed


@pytest.mark.slow
async def test_the_packet_runs(database_url: DatabaseUrl) -> None:
    """It checks what it prints by itself."""
    run = FOLDER.parent / "packet/run.py"
    async with start(str(run), environ={"PENSTOCK_DATABASE_URL": database_url.reveal()}) as program:
        assert await program.end(60) == 0, program.printed
        assert "page 1; page 4 of the packet" in program.printed


@pytest.mark.slow
async def test_the_memos_run(database_url: DatabaseUrl) -> None:
    """It checks what it prints by itself."""
    run = FOLDER.parent / "memos/run.py"
    async with start(str(run), environ={"PENSTOCK_DATABASE_URL": database_url.reveal()}) as program:
        assert await program.end(60) == 0, program.printed
        assert "merged into 1" in program.printed
        assert "said by Bob in message 6" in program.printed


@pytest.mark.slow
async def test_the_knowledge_runs(database_url: DatabaseUrl) -> None:
    """It checks what it prints by itself."""
    run = FOLDER.parent / "knowledge/run.py"
    async with start(str(run), environ={"PENSTOCK_DATABASE_URL": database_url.reveal()}) as program:
        assert await program.end(60) == 0, program.printed
        assert "The runner was replaced in 2019" in program.printed
