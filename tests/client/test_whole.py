"""The client as a whole: no route without a method, no stale sync flavour, nothing heavy behind its import."""

import ast
import json
import subprocess
import sys

from penstock.product import Product
from penstock.web import make_app
from tests.client.unasync import SOURCE, TARGET, made, unasync

NOT_FOR_PROGRAMS = {"/api/session"}  # a browser signs in there; a program sends its key with each request


def spoken() -> set[tuple[str, str]]:
    """Every method and path that the client asks for: the literals that it sends, not a list beside it."""
    routes = set()
    for path in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case (
                    ast.Call(
                        func=ast.Attribute(attr="ask" | "stream"),
                        args=[ast.Constant(str(method)), ast.Constant(str(route))],
                    )
                    | ast.Call(
                        func=ast.Attribute(attr="_ask"), args=[_, ast.Constant(str(method)), ast.Constant(str(route))]
                    )
                ):
                    routes.add((method, route))
                case (
                    ast.Call(func=ast.Attribute(attr="_ask_list" | "pages"), args=[_, ast.Constant(str(route))])
                    | ast.Call(func=ast.Attribute(attr="whole"), args=[ast.Constant(str(route)), _])
                ):
                    routes.add(("GET", route))
                case _:
                    pass
    return routes


async def test_every_route_has_a_method(product: Product) -> None:
    described = make_app(product).openapi()["paths"]
    routes = {
        (method.upper(), path)
        for path, methods in described.items()
        for method in methods
        if path not in NOT_FOR_PROGRAMS
    }
    assert len(routes) > 20
    assert routes - spoken() == set(), "Give these routes a method in penstock/client/_async."


def test_the_sync_flavour_is_fresh() -> None:
    there = {path.name: path.read_text("utf-8") for path in TARGET.glob("*.py")}
    assert there == made(), "Run `.venv/bin/python -m tests.client.unasync`."


def test_words_are_exchanged() -> None:
    source = "async with AsyncA() as a:\n    [b async for b in await a.aclose()]\n"
    assert unasync(source) == "with A() as a:\n    [b for b in a.close()]\n"


def test_the_import_is_light() -> None:
    script = (
        "import json, sys, time; before = time.process_time(); import penstock.client; "
        "print(json.dumps([time.process_time() - before, sorted(sys.modules)]))"
    )
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", script])) for _ in range(3)]
    took, modules = min(runs)  # the others shared the processor with somebody
    heavy = {"asyncpg", "fastapi", "pydantic", "httpx2", "asyncio", "penstock.engine", "penstock.settings", "numpy"}
    assert heavy & set(modules) == set()
    assert took < 0.15
