"""The files of deploy/ against the schemas of those who read them, and a rolling upgrade from the release before."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.real.conftest import missing, need_program

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def tool(name: str) -> str:
    """A program of the venv that `./dev test --real` has made for them."""
    place = os.environ.get("PENSTOCK_TEST_CHECK_JSONSCHEMA")
    if place is None:
        missing(name, "use ./dev test --real")
    assert place is not None
    return str(Path(place).with_name(name))


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_compose() -> None:
    said = run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "docker/compose.yaml"))
    assert "validation done" in said


def test_kubernetes() -> None:
    said = run(tool("kubernetes-validate"), "--strict", str(DEPLOY / "kubernetes/penstock.yaml"))
    assert len(re.findall("passed for resource", said)) == 10


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """Else the two above would prove nothing."""
    broken = tmp_path / "compose.yaml"
    broken.write_text((DEPLOY / "docker/compose.yaml").read_text().replace("restart: unless-stopped", "restrat: never"))
    with pytest.raises(AssertionError, match="restrat"):
        run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(broken))
    wrong = tmp_path / "penstock.yaml"
    wrong.write_text((DEPLOY / "kubernetes/penstock.yaml").read_text().replace("minAvailable: 1", "minAvailble: 1"))
    with pytest.raises(AssertionError, match="minAvailble"):
        run(tool("kubernetes-validate"), "--strict", str(wrong))


@pytest.mark.parametrize("unit", sorted(path.name for path in (DEPLOY / "systemd").glob("*.service")))
def test_systemd(unit: str, tmp_path: Path) -> None:
    program = need_program("systemd-analyze", "systemd")
    text = (DEPLOY / "systemd" / unit).read_text().replace("/opt/penstock/bin/penstock", shutil.which("true") or "")
    made = tmp_path / unit.replace("@", "@1")
    made.write_text(text)
    assert run(program, "verify", str(made)).strip() == ""
