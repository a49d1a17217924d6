"""The pages name modules, tests, pages and programs that exist, and every page can be found."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src/penstock"
PAGES = sorted(DOCS.glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:\w+/)+\w+\.(?:py|sql)|[a-z_]\w*\.(?:py|sql)")  # `0002_word.sql` alone is an example
STEP = re.compile(r"^\d+\. .*`\w+/[\w/]+\.py`", re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")
SECTIONS = ["Start", "Use", "Ingest", "Build on the engine", "Operate", "Reference"]


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


def test_every_page_is_in_the_contents_and_in_the_index_under_the_same_section() -> None:
    contents, index = (ROOT / "mkdocs.yml").read_text(), (DOCS / "index.md").read_text()
    nav = _sections(contents, r"^  - ([A-Z].*):$", r"^      - ([\w-]+)\.md$")
    assert list(nav) == SECTIONS
    assert sorted(page for pages in nav.values() for page in pages) == sorted(page.stem for page in PAGES)
    nav["Start"].remove("index")
    assert _sections(index, r"^## (.*)$", r"^\| \[.*?\]\(([\w-]+)\.md\) \|") == nav


def _sections(text: str, heading: str, entry: str) -> dict[str, list[str]]:
    """The pages under each heading, in their order; headings without a page are left out."""
    parts = re.split(heading, text, flags=re.MULTILINE)[1:]
    found = {name: re.findall(entry, body, re.MULTILINE) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return {name: pages for name, pages in found.items() if pages}


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 150
    assert [link for link in LINK.findall(text) if not (ROOT / link).exists()] == []
    assert [page for page in ("steps", "fan-out", "schedules", "limits") if f"(docs/{page}.md)" not in text] == []


def test_the_programs_of_the_pages_are_the_examples() -> None:
    """A page that shows a whole example shows it as it is, but for its docstring."""
    for page, example in (("jobs", "greet"), ("schedules", "nightly"), ("limits", "careful")):
        program = (ROOT / f"examples/engine/{example}.py").read_text().split('"""\n\n', 1)[1]
        assert f"```python\n{program}```" in (DOCS / f"{page}.md").read_text(), (page, example)


def test_the_walks_through_the_code_name_what_exists() -> None:
    """In each step, a name is defined in the module that is named last before it."""
    readme = (ROOT / "README.md").read_text()
    summary = readme[readme.index("## Follow one document") : readme.index("## Limits")]
    walks = (DOCS / "follow.md").read_text()
    assert [*_wrong("README.md", summary), *_wrong("docs/follow.md", walks)] == []
    assert len(STEP.findall(summary)) >= 5
    assert len(STEP.findall(walks)) >= 40


def test_the_pages_name_files_that_exist() -> None:
    """An example or a test may be named without its folder. `shop.py` is the reader's own program."""
    pages = [*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
    named = {(page.name, code) for page in pages for code in CODE.findall(page.read_text()) if FILE.fullmatch(code)}
    alone = {path.name for folder in ("examples", "tests") for path in (ROOT / folder).rglob("*.py")} | {"shop.py"}
    assert len(named) > 50
    assert sorted(f"{page}: {path}" for page, path in named if path not in alone and _place(path) is None) == []


def test_the_pages_use_attributes_of_the_product_that_exist() -> None:
    used = {name for page in PAGES for name in re.findall(r"\bproduct\.(\w+)\b(?!\()", page.read_text())} - {"py"}
    made = set(re.findall(r"\bself\.(\w+)(?::.*)? = ", (SOURCE / "product.py").read_text()))
    assert used
    assert used - made == set()


def _wrong(page: str, text: str) -> Iterator[str]:
    for step in re.split(r"\n(?=\d+\. |\n|#)", text):
        module: Path | None = None
        for code in CODE.findall(step):
            if FILE.fullmatch(code) or code.endswith("/"):
                module = _place(code)
                if module is None:
                    yield f"{page}: {code} does not exist"
            elif NAME.fullmatch(code) and (module is None or code not in names_in(module)):
                yield f"{page}: {code} is not in {module and module.relative_to(ROOT)}"


def _place(path: str) -> Path | None:
    """A path of a page: below the package, or from the root of the checkout."""
    return next((place for place in (SOURCE / path, ROOT / path) if place.exists()), None)


@cache
def names_in(module: Path) -> frozenset[str]:
    """Functions, classes and `Class.method` of a module, and the statements of the SQL file next to it."""
    if module.suffix != ".py":
        return frozenset()
    tree = ast.parse(module.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {f"{each.name}.{node.name}" for each in classes for node in each.body if isinstance(node, FUNCTIONS)}
    functions = {node.name for node in tree.body if isinstance(node, FUNCTIONS)}
    sql = module.with_suffix(".sql")
    statements = re.findall(r"^-- name: (\w+)", sql.read_text(), re.MULTILINE) if sql.exists() else []
    return frozenset({*functions, *methods, *(each.name for each in classes), *statements})
