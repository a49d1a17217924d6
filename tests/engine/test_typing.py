"""Type checkers accept right uses of jobs and refuse wrong ones: the lines of `USES` that end with `# wrong`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent

USES = """\
from typing import Any, assert_type

from penstock import Context, Gap, Penstock

app = Penstock()


@app.job(retries=1)
async def greet(ctx: Context, name: str, times: int = 1) -> list[str]:
    return [f"Hello, {name}"] * times


@app.job()
async def count(ctx: Any, text: str) -> int:
    return len(text)


@app.job()  # wrong
def blocking(ctx: Context) -> None: ...


@app.job()  # wrong
async def without_context() -> None: ...


def read(page: int, scale: float = 1.0) -> bytes:
    return bytes(page)


async def translate(text: str) -> str:
    return text


@app.job()
async def parent(ctx: Context) -> None:
    assert_type(await ctx.step("read", read, 1), bytes)
    assert_type(await ctx.step("read", read, 1, 2.0, version=2), bytes)
    assert_type(await ctx.step("translate", translate, "a", pure=True), str)
    await ctx.step("read", read, "1")  # wrong
    await ctx.step("read", read)  # wrong
    await ctx.step("read", read, 1, versoin=2)  # wrong
    assert_type(await ctx.map("greet", [greet(name="Ada")]), list[list[str]])
    assert_type(await ctx.map("count", (count(text=word) for word in "ab"), gaps="allow"), list[int | Gap])
    await ctx.map("count", [count])  # wrong
    await ctx.map("count", [count(text="a")], gaps="maybe")  # wrong


async def enqueue() -> None:
    job = await app.enqueue(greet(name="Ada", times=2))
    assert_type(await app.result(job), list[str])
    assert_type(await app.result(await app.enqueue(greet("Ada"))), list[str])
    assert_type(await app.result(7), Any)
    for each in await app.enqueue_many([count(text="a"), count(text="b")]):
        assert_type(await app.result(each, timeout="5s"), int)
    greet()  # wrong
    greet(name=7)  # wrong
    greet(nme="Ada")  # wrong
    greet(name="Ada", times="2")  # wrong
    greet("Ada", 2, 3)  # wrong
    await app.enqueue(greet)  # wrong
    await app.enqueue(greet(name="Ada"), fairness=1)  # wrong
    (await app.result(job)).upper()  # wrong
    app.schedule("nightly", "every 1h", greet(name="Ada"))
    app.schedule("nightly", "every 1h", greet(name=7))  # wrong
    app.job(timout="5m")  # wrong
"""
WRONG = {number for number, line in enumerate(USES.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def uses(tmp_path: Path) -> Path:
    path = tmp_path / "uses.py"
    path.write_text(USES)
    return path


def test_mypy_refuses_wrong_uses_of_jobs(uses: Path) -> None:
    options = ("--strict", "--config-file=", f"--cache-dir={uses.parent / 'cache'}", "--no-error-summary")
    printed = _run("mypy", *options, str(uses))
    assert set(_lines(printed, rf"^{uses}:(\d+): error")) == WRONG, printed


def test_pyright_refuses_wrong_uses_of_jobs(uses: Path) -> None:
    project = {
        "include": [str(uses)],
        "typeCheckingMode": "standard",  # that of pyright itself
        "venvPath": str(PROGRAMS.parents[1]),
        "venv": PROGRAMS.parent.name,
        "extraPaths": [str(ROOT / "src")],
    }
    (uses.parent / "pyrightconfig.json").write_text(json.dumps(project))
    printed = _run("basedpyright", "--project", str(uses.parent))
    assert set(_lines(printed, rf"^\s*{uses}:(\d+):\d+ - error")) == WRONG, printed


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def _lines(printed: str, pattern: str) -> Iterator[int]:
    for found in re.finditer(pattern, printed, re.MULTILINE):
        yield int(found[1])
