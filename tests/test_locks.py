"""A lock holds names, versions and hashes: no address of a registry, a mirror or anybody else."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = [*sorted((ROOT / "locks").glob("*.lock")), *sorted((ROOT / "tools").glob("*/package-lock.json"))]


def test_there_are_locks() -> None:
    assert {"dev.lock", "image.lock", "package-lock.json"} <= {path.name for path in LOCKS}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_lock_names_no_host(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "://" in line or "index-url" in line] == []


@pytest.mark.parametrize("path", [path for path in LOCKS if path.suffix == ".json"], ids=lambda path: path.parent.name)
def test_every_package_has_a_hash(path: Path) -> None:
    packages = json.loads(path.read_text(encoding="utf-8"))["packages"]
    assert [name for name, facts in packages.items() if name and "integrity" not in facts] == []
