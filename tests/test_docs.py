"""The pages name tests, pages and programs that exist, and every page can be found."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Their names, without importing the file."""
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, FUNCTIONS))


def test_post_mortems_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "post-mortems.md").read_text())
    assert len(named) > 100
    missing = [f"{path}::{name}" for path, name in named if name not in functions_of(ROOT / path)]
    assert missing == []


def test_every_row_of_post_mortems_has_a_test_or_says_not_yet() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", (DOCS / "post-mortems.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 38))
    assert [number for number, shown in rows if "::" not in shown and shown != "not yet"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_tests_that_exist(page: Path) -> None:
    named = set(re.findall(r"`(?:tests/\w+/)?(test_\w+(?:\.py)?)`", page.read_text()))
    files = list((ROOT / "tests").rglob("test_*.py"))
    known = {path.name for path in files} | {name for path in files for name in functions_of(path)}
    assert named - known == set()


def test_every_page_is_in_the_contents_and_linked_from_the_index() -> None:
    contents, index = (ROOT / "mkdocs.yml").read_text(), (DOCS / "index.md").read_text()
    for page in PAGES:
        assert f"- {page.name}\n" in contents, "mkdocs.yml"
        assert page.name == "index.md" or f"]({page.name})" in index, "docs/index.md"


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 120
    assert [link for link in LINK.findall(text) if not (ROOT / link).exists()] == []
    assert [page for page in ("steps", "fan-out", "schedules", "limits") if f"(docs/{page}.md)" not in text] == []


def test_the_programs_of_the_pages_are_the_examples() -> None:
    """A page that shows a whole example shows it as it is, but for its docstring."""
    for page, example in (("jobs", "greet"), ("schedules", "nightly"), ("limits", "careful")):
        program = (ROOT / f"examples/engine/{example}.py").read_text().split('"""\n\n', 1)[1]
        assert f"```python\n{program}```" in (DOCS / f"{page}.md").read_text(), (page, example)
