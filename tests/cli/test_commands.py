"""The tree of commands: sections, helps that stand alone, `help` and `--version`; run in this process."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli.commands import SECTIONS, app

ROOT = Path(__file__).parents[2]
TREE = typer.main.get_command(app)


def walk(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below one, groups included."""
    for name, below in getattr(command, "commands", {}).items():
        yield (*names, name), below
        yield from walk(below, *names, name)


def run(*arguments: str, width: int = 80) -> str:
    result = CliRunner(env={"COLUMNS": str(width)}).invoke(app, list(arguments), prog_name="penstock")
    assert result.exit_code == 0, result.output
    return result.output


def test_help_lists_every_command_once_by_section() -> None:
    said = run("--help")
    titles = [line.removesuffix(":") for line in said.splitlines() if line and line[0] != " " and line[-1] == ":"]
    assert titles == ["Options", *SECTIONS]
    listed = [line.split()[0] for line in said.partition("Documents:")[2].splitlines() if line.startswith("  ")]
    assert listed == [name for commands in SECTIONS.values() for name in commands]
    assert sorted(listed) == sorted(TREE.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("names", [(), *(names for names, command in walk(TREE) if hasattr(command, "commands"))])
def test_helps_stand_alone_on_one_line(names: tuple[str, ...]) -> None:
    """In 80 columns none is cut; each is a sentence."""
    table = run(*names, "--help").partition("--help")[2].splitlines()
    rows = [line for line in table if line.startswith("  ")]
    assert [line for line in rows if "..." in line] == []
    assert [line for line in rows if not line.endswith(".")] == []


def test_everything_has_a_help() -> None:
    lacking = [" ".join(names) for names, command in walk(TREE) if not command.help]
    options = [
        f"{' '.join(names)} {parameter.name}"
        for names, command in walk(TREE)
        for parameter in command.params
        if not getattr(parameter, "help", None) and not getattr(parameter, "hidden", False)
    ]
    assert (lacking, options) == ([], [])


def test_wait_is_always_wait_until() -> None:
    waits = {
        " ".join(names): parameter.help
        for names, command in walk(TREE)
        for parameter in command.params
        if parameter.name == "wait"
    }
    assert len(waits) >= 6
    assert [name for name, text in waits.items() if not text.startswith("Wait until ")] == []


def test_groups_are_plural_and_have_a_list() -> None:
    groups = {names[0]: set(command.commands) for names, command in walk(TREE) if hasattr(command, "commands")}
    assert {name for name, commands in groups.items() if "list" not in commands} == {"db", "doctor"}
    assert {name for name in groups if not name.endswith("s")} == {"inbox", "dead", "db", "doctor"}


def test_help_of_a_command() -> None:
    assert run("help") == run("--help")
    assert run("help", "documents", "list") == run("documents", "list", "--help")
    assert "Usage: penstock documents list" in run("help", "documents", "list")
    result = CliRunner().invoke(app, ["help", "documnets"], prog_name="penstock")
    assert (result.exit_code, "Did you mean 'documents'?" in result.output) == (2, True)


def test_version() -> None:
    assert run("--version") == run("version") == f"{__version__}\n"


def test_the_words_of_the_field() -> None:
    """No help has a word that the vocabulary replaced."""
    wrong = re.compile(r"\b(its number|numbers|somebody|nobody|whoever|is no|mend|look|tell|say|anew|gaps?|bites?)\b")
    texts = [
        (" ".join(names), text)
        for names, command in walk(TREE)
        for text in [command.help, *(getattr(each, "help", None) or "" for each in command.params)]
    ]
    assert [(name, text) for name, text in texts if wrong.search(text)] == []


def test_every_command_that_is_advised_exists() -> None:
    """In messages, pages, deploy files and examples: in backquotes or tags, or as the whole text."""
    files = subprocess.check_output(
        ["git", "ls-files", "src", "deploy", "examples", "tools", "dev"], cwd=ROOT, text=True
    )
    wrong = []
    for name in files.splitlines():
        if "/schema/" in name or not name.endswith((".py", ".html", ".yml", ".yaml", ".service", ".js", "dev")):
            continue
        for found in re.finditer(r"[`>\"']penstock ((?:[a-z]+ ?)+)", (ROOT / name).read_text()):
            words = found[1].split()
            command = TREE.commands.get(words[0])  # type: ignore[attr-defined]
            below = getattr(command, "commands", None)
            if command is None or (below and words[1:] and words[1] not in below):
                wrong.append((name, found[1]))
    assert wrong == []
