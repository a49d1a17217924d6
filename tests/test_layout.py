"""How source and tests are laid out: SQL is private to its module, and test modules import nothing from each other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
OF_A_TEST_MODULE = re.compile(
    r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+|^\s*from tests[\w.]* import .*\btest_\w+", re.MULTILINE
)


def test_helpers_are_imported_from_helper_modules() -> None:
    """A test module is imported by pytest only: what several need is in a module whose name does not start with test_."""
    modules = list(TESTS.rglob("*.py"))
    wrong = {
        str(path.relative_to(TESTS)): found
        for path in modules
        if (found := [match.strip() for match in OF_A_TEST_MODULE.findall(path.read_text())])
    }
    assert len(modules) > 200
    assert wrong == {}


def test_no_module_imports_the_sql_of_another() -> None:
    files = sorted((SOURCE / "penstock").rglob("*.py"))
    found = [(_module(path), source) for path in files for source in _imports_of_sql(path)]
    owners = {_module(path) for path in files if path.with_suffix(".sql").exists()}
    assert len(owners) > 50, "the walk does not find the modules"
    assert found == []


def _imports_of_sql(path: Path) -> Iterator[str]:
    """The modules from which a file takes the name `sql`, by an import or as an attribute of an imported module."""
    modules: dict[str, str] = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "penstock":
            for name in node.names:
                if name.name == "sql":
                    yield str(node.module)
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "sql" and ast.unparse(node.value) in modules:
            yield modules[ast.unparse(node.value)]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)
