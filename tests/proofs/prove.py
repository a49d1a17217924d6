"""`./dev prove`: would the tests notice if the engine were broken, and does it survive a fault at every failpoint?

Without an option it is what CI runs: some of the mutants, another part with each commit, and the pairwise selection of the
matrix. `--mutants` tries every mutant. `--full` runs every cell of the matrix and the long explorations, too.
"""

# ruff: noqa: T201  it prints for a person

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.database import EmbeddedServer
from penstock.settings import PostgresSettings
from penstock.text import counted
from tests.conftest import SHARED, make_home, prepare_template
from tests.proofs.mutants import MUTANTS, DoesNotApply, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "pyproject.toml")
SAMPLE = 5
AT_ONCE = 2  # processes
PATIENCE = 300  # seconds for the tests of one mutant: one that makes them hang is noticed by that


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    mutant: Mutant
    killed_by: str
    fault: str
    seconds: float

    def __str__(self) -> str:
        told = self.killed_by or f"NOT KILLED: {self.fault}"
        return f"{self.mutant.name:<34} {self.seconds:5.1f} s  {told}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="./dev prove")
    options.add_argument("--mutants", action="store_true", help="all mutants instead of a sample, and no matrix")
    options.add_argument("--full", action="store_true", help="all cells of the matrix, long explorations, all mutants")
    options.add_argument("--only", metavar="NAME", help="the mutants whose name has this in it")
    chosen = options.parse_args(arguments)
    with one_server():
        if chosen.only:
            return prove_mutants([mutant for mutant in MUTANTS if chosen.only in mutant.name])
        red = prove_mutants(MUTANTS if chosen.mutants or chosen.full else sample(revision()))
        if chosen.full:
            red |= run("explorations", "-n", str(AT_ONCE), "tests/proofs/at_length.py")
        if chosen.full or not chosen.mutants:
            red |= prove_matrix(full=chosen.full)
        return red


@contextmanager
def one_server() -> Iterator[None]:
    """For all runs of pytest that follow: making one takes longer than the tests of most mutants."""
    server = EmbeddedServer(make_home(), PostgresSettings(durable=False, max_connections=300))
    try:
        os.environ[SHARED] = asyncio.run(prepare_template(server))
        yield
    finally:
        asyncio.run(server.leave())
        shutil.rmtree(server.home)


def revision() -> str:
    """Of the checkout; in a copy without git it is always the same."""
    asked = subprocess.run(("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "0"


def sample(commit: str) -> list[Mutant]:
    """Another few with each commit; the same commit always has the same."""
    start = int(commit[:8], 16) % len(MUTANTS)
    return [MUTANTS[(start + step * 7) % len(MUTANTS)] for step in range(SAMPLE)]


# --- Mutants ----------------------------------------------------------------------------------------------------------


def prove_mutants(mutants: Iterable[Mutant]) -> int:
    """0 if all tests are green without a mutant, and some are red with each."""
    chosen = list(mutants)
    began = time.monotonic()
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    print(
        f"{len(chosen)} of {len(MUTANTS)} mutants, killed by {counted(len(tests), 'test')}; first without any",
        flush=True,
    )
    if run("unmutated", "-n", str(AT_ONCE), *tests):
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        survived = 0
        for verdict in pool.map(judge, chosen):
            print(verdict, flush=True)
            survived += not verdict.killed_by
    seconds = time.monotonic() - began
    print(f"{len(chosen) - survived} of {len(chosen)} mutants killed in {seconds:.0f} s\n", flush=True)
    return int(survived > 0)


def judge(mutant: Mutant) -> Verdict:
    """Run its tests in a copy of the checkout that has this one fault."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-") as folder:
        try:
            copy = copy_checkout(Path(folder))
            mutant.apply(copy)
            killed_by, fault = watch_die(copy, mutant)
        except DoesNotApply as error:
            killed_by, fault = "", str(error)
    return Verdict(mutant, killed_by, fault, time.monotonic() - began)


def copy_checkout(folder: Path) -> Path:
    copy = folder / "penstock"
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


def watch_die(copy: Path, mutant: Mutant) -> tuple[str, str]:
    """The test that failed, or why none did. An error in the collection or in a fixture is no proof."""
    environ = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    where = "import penstock, pathlib; print(pathlib.Path(penstock.__file__).parents[2])"
    imported = subprocess.run(
        (sys.executable, "-c", where), cwd=copy, env=environ, capture_output=True, text=True, check=True
    ).stdout.strip()
    if Path(imported) != copy:
        return "", f"the tests would import {imported}, and not the mutant"
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line")
    options = ("-o", "addopts=--import-mode=importlib --strict-markers -rfE", *mutant.tests)
    try:
        done = subprocess.run(
            (*command, *options), cwd=copy, env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return "", f"its tests took more than {PATIENCE} s"
    failed = re.findall(r"^FAILED \S*?(\w+\.py::\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 1 and failed:
        return failed[0], ""
    return "", done.stdout[-1000:] if done.returncode else f"{', '.join(mutant.tests)} did not notice it"


# --- The rest ---------------------------------------------------------------------------------------------------------


def prove_matrix(*, full: bool) -> int:
    os.environ["PENSTOCK_TEST_MATRIX"] = "full" if full else "pairwise"
    return run("matrix", "-n", str(AT_ONCE), "tests/proofs/fault_matrix.py")


def run(what: str, *arguments: str) -> int:
    began = time.monotonic()
    code = subprocess.run((sys.executable, "-m", "pytest", "-q", *arguments), cwd=ROOT, check=False).returncode
    print(f"{what}: {'red' if code else 'green'} after {time.monotonic() - began:.0f} s\n", flush=True)
    return int(code != 0)


if __name__ == "__main__":
    sys.exit(main())
