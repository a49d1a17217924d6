"""The examples run to their end by themselves, and print what their pages promise."""

from pathlib import Path

import pytest

from penstock.settings import DatabaseUrl
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
    assert {path.name for path in FOLDER.glob("*.py")} == set(LAST_WORDS)


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
