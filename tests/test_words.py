"""The project uses the field's vocabulary: words that it once coined stay rare, and the docs stay short.

Counted over the source, the docs and the pages for contributors. Migrations that were applied cannot be reworded, the changelog
tells history, and names of others (the account `nobody`) are not ours to change.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from penstock.cli.commands import app

ROOT = Path(__file__).parents[1]
PLACES = ("src", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "dev")
TEXTS = {".py", ".sql", ".html", ".js", ".css", ".md", ".json", ".yml", ""}
APPLIED = ROOT / "src/penstock/database/schema"  # their checksums forbid a change
OTHERS = re.compile(r"`nobody`|[\"']nobody[\"']|account nobody|user nobody|nobody:nogroup")
MOST = {  # expression: how often it may occur
    r"\b(?:for|of|to) who\b": 3,
    r"\bis no [a-z]+": 30,
    r"\bmend(?:s|ed|ing)?\b": 3,
    r"\bbites?\b": 3,
    r"\b(?:somebody|nobody|everybody|whoever)\b": 40,
    r"\banew\b": 3,
}
WORDS_OF_DOCS = 60_000 + 2_000  # a new topic may bring 2,000 words: reliability
GLOSSARY = 40
# Coined words that stand nowhere in what a newcomer reads first.
REPLACED = re.compile(
    r"\b(?:bites?|mend(?:s|ed|ing)?|anew|somebody|nobody|everybody|whoever|suspects?|bur(?:y|ied)|"
    r"from inside of others|gives? back|the share of|(?:for|of|to) who)\b",
    re.IGNORECASE,
)
FIRST_PAGES = (
    *("README.md", "docs/index.md", "docs/quick-start.md", "docs/documents.md", "docs/sources.md", "docs/jobs.md"),
    *("docs/operating.md", "docs/api.md"),
)


def texts() -> dict[Path, str]:
    found = {}
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if (
                file.is_file()
                and file.suffix in TEXTS
                and APPLIED not in file.parents
                and "__pycache__" not in file.parts
            ):
                found[file] = OTHERS.sub("", file.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("expression", MOST)
def test_words_of_our_own_are_rare(expression: str) -> None:
    word = re.compile(expression, re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        for _ in word.findall(line)
    ]
    assert len(found) <= MOST[expression], "\n".join(found)


def test_the_docs_are_short() -> None:
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").rglob("*.md"))
    assert words <= WORDS_OF_DOCS


def test_the_glossary_is_short() -> None:
    header, _, *rows = re.findall(r"^\|.*", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert header.startswith("| term |")
    assert 10 < len(rows) <= GLOSSARY


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_the_first_pages_have_none_of_them(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert REPLACED.findall(text) == []


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it."""
    with command.make_context(name, [], resilient_parsing=True) as context:
        yield name, command.get_help(context)
    for child_name, child in getattr(command, "commands", {}).items():
        yield from helps(child, f"{name} {child_name}")


def test_the_help_has_none_of_them() -> None:
    found = dict(helps(get_command(app), "penstock"))
    assert len(found) > 60
    assert {name: words for name, said in found.items() if (words := REPLACED.findall(said))} == {}
