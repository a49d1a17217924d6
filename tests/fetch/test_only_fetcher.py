"""Who may speak HTTP: the fetcher for URLs of others, and the modules that speak to one configured address."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
# `penstock health` asks a port of this machine, and nothing that somebody else could name.
ALLOWED = (
    "penstock.fetch",
    "penstock.models.endpoint",
    "penstock.search.qdrant.client",  # by Qdrant's own client, to qdrant.url
    "penstock.client",
    "penstock.cli.operations",
)
CLIENTS = (
    "aiohttp",
    "httpx",
    "httpx2",
    "qdrant_client",
    "requests",
    "urllib3",
    "urllib.request",
    "http.client",
    "pycurl",
    "websockets",
)


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that the code imports, also inside functions and by `import_module`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.Call(func=ast.Name("import_module" | "__import__"), args=[ast.Constant(str(module)), *_]):
                yield module
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(str(module)), *_]):
                yield module
            case _:
                pass


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def clients_in(source: str) -> list[str]:
    return sorted({module for module in imported(ast.parse(source)) if within(module, CLIENTS)})


def test_only_the_fetcher_speaks_http() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(("penstock", *path.relative_to(SOURCE).with_suffix("").parts))
        if not within(module, ALLOWED) and (clients := clients_in(path.read_text(encoding="utf-8"))):
            found[module] = clients
    assert found == {}, "Fetch by penstock.fetch: it checks where a URL leads."


@pytest.mark.parametrize(
    "source",
    [
        "import aiohttp",
        "import aiohttp.web as web",
        "from aiohttp import ClientSession",
        "from urllib import request",
        "import urllib.request",
        "from urllib.request import urlopen",
        "from http import client",
        "def f():\n    import httpx",
        "import importlib\nimportlib.import_module('requests')",
        "from importlib import import_module\nimport_module('http.client')",
    ],
)
def test_a_client_is_noticed(source: str) -> None:
    assert clients_in(source)


@pytest.mark.parametrize("source", ["from urllib.parse import quote", "from http import HTTPStatus", "import aiohttpx"])
def test_others_are_not(source: str) -> None:
    assert clients_in(source) == []


def test_the_fetcher_itself_is_seen() -> None:
    """Else the test above would pass on a tree that it does not read."""
    assert clients_in((SOURCE / "fetch" / "fetcher.py").read_text(encoding="utf-8"))
