"""`penstock config`: what is in force, and why."""

import json
from pathlib import Path

import pytest

from tests.processes import penstock, start


async def test_values_come_with_their_origin_and_without_secrets(home: Path) -> None:
    (home / "penstock.toml").write_text("[api]\nport = 9000\n")
    environ = {
        "PENSTOCK_HOME": str(home),
        "PENSTOCK_POOL__SIZE": "3",
        "PENSTOCK_DATABASE_URL": "postgresql://ada:secret-canary@db/x",
    }
    code, said = await penstock("config", "--json", **environ)
    assert code == 0
    found = json.loads(said)
    assert found["pool.size"] == {"value": "3", "origin": "PENSTOCK_POOL__SIZE"}
    assert found["api.port"] == {"value": "9000", "origin": str(home / "penstock.toml")}
    assert found["pool.call_timeout"] == {"value": "30s", "origin": "default"}
    assert "secret-canary" not in said
    code, said = await penstock("config", **environ)
    assert (code, "postgresql://ada:***@db/x" in said) == (0, True)


async def test_a_settings_file_is_named(home: Path, tmp_path: Path) -> None:
    named = tmp_path / "mine.toml"
    named.write_text("[api]\nport = 9001\n")
    for arguments, environ in (
        (("--config", str(named)), {}),
        ((), {"PENSTOCK_CONFIG": str(named)}),
    ):
        code, said = await penstock(*arguments, "config", "--json", PENSTOCK_HOME=str(home), **environ)
        assert code == 0, said
        found = json.loads(said)
        assert found["config"] == {"value": str(named), "origin": "PENSTOCK_CONFIG"}
        assert found["api.port"] == {"value": "9001", "origin": str(named)}


@pytest.mark.slow
async def test_the_settings_of_a_received_folder_are_not_read(home: Path) -> None:
    """A folder that came from elsewhere named a PostgreSQL of its own, and `penstock add .` ran it."""
    received = home / "received"  # where the account of the server can run programs
    (received / "bin").mkdir(parents=True)
    home.chmod(0o755)
    received.chmod(0o777)
    for program in ("initdb", "postgres", "pg_ctl"):
        path = received / "bin" / program
        path.write_text(f"#!/bin/sh\ntouch {received}/ran\nexit 1\n")
        path.chmod(0o755)
    (received / "penstock.toml").write_text('[postgres]\nbinaries = "."\n')
    (received / "note.txt").write_text("The turbine stands still.\n")
    environ = {"PENSTOCK_HOME": str(home)}
    async with start("-m", "penstock", "add", ".", environ=environ, cwd=received) as command:
        code = await command.end(100)
    assert not (received / "ran").exists(), "a program of the folder was run"
    assert code == 0, command.printed
