"""`penstock db …` for people."""

from pathlib import Path

import pytest

from tests.processes import penstock


async def test_start_psql_stop(home: Path) -> None:
    environ = {"PENSTOCK_HOME": str(home)}
    code, said = await penstock("db", "start", **environ)
    assert (code, "PostgreSQL made" in said) == (0, True), said
    assert "***" in said
    code, said = await penstock("db", "psql", "-Atc", "select 6 * 7", **environ)
    assert (code, said.strip()) == (0, "42")
    code, said = await penstock("db", "path", **environ)
    assert Path(said.strip()) == home / "postgres" / "data"
    assert await penstock("db", "stop", **environ) == (0, "Stopped.\n")
    assert await penstock("db", "stop", **environ) == (0, "The server was not running.\n")


@pytest.mark.slow
async def test_dump_and_restore(home: Path) -> None:
    first = {"PENSTOCK_HOME": str(home / "first")}
    second = {"PENSTOCK_HOME": str(home / "second")}
    file = str(home / "all.dump")
    (home / "first").mkdir(mode=0o711)
    assert (await penstock("db", "migrate", **first))[0] == 0
    assert (await penstock("db", "psql", "-qc", "create table penstock.t as select 5 as n", **first))[0] == 0
    code, said = await penstock("db", "dump", file, **first)
    assert (code, "Wrote" in said) == (0, True), said

    code, said = await penstock("db", "restore", file, **second)
    assert (code, "Restored" in said) == (0, True), said
    assert (await penstock("db", "psql", "-Atc", "select n from penstock.t", **second))[1].strip() == "5"

    code, said = await penstock("db", "restore", file, **second)
    assert (code, "--replace" in said) == (2, True), said
    await penstock("db", "psql", "-qc", "update penstock.t set n = 6", **second)
    code, said = await penstock("db", "restore", "--replace", file, **second)
    assert code == 0, said
    assert (await penstock("db", "psql", "-Atc", "select n from penstock.t", **second))[1].strip() == "5"


@pytest.mark.slow
async def test_a_broken_dump_changes_nothing(home: Path) -> None:
    environ = {"PENSTOCK_HOME": str(home)}
    broken = home / "broken.dump"
    broken.write_bytes(b"PGDMP and then nothing")
    assert (await penstock("db", "psql", "-qc", "create schema kept", **environ))[0] == 0
    code, said = await penstock("db", "restore", str(broken), "--replace", **environ)
    assert code == 2, said
    assert "Traceback" not in said
    assert (await penstock("db", "psql", "-Atc", "select 'kept'::regnamespace", **environ))[1].strip() == "kept"
