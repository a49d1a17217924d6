"""What a person can get wrong: one sentence, exit code 2, within 10 seconds, and nothing left that blocks the next start."""

import asyncio
import socket
import struct
import time
from pathlib import Path

import asyncpg
import pytest

from penstock.settings import DatabaseUrl
from tests.processes import penstock
from tests.slow import slow_but_first


async def refused(*arguments: str, **environ: str) -> str:
    began = time.monotonic()
    code, said = await penstock(*arguments, **environ)
    assert code == 2, said
    assert time.monotonic() - began < 10
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) <= 2, said
    return said


async def test_a_port_in_use(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"Port {port} is in use by process" in await refused("up", "--port", port, PENSTOCK_HOME=str(home))
    assert [path.name for path in home.iterdir()] == ["up.lock"], "nothing was made"


@pytest.mark.parametrize("host", slow_but_first(["0.0.0.0", "::"]))
async def test_an_address_that_others_can_reach(home: Path, host: str) -> None:
    """Without a key nobody could ask; the database in which it will be made is there, and nothing else was started."""
    code, said = await penstock("up", "--host", host, "--port", "0", PENSTOCK_HOME=str(home))
    assert (code, "worker started" in said) == (2, False), said
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"api.host is {host}")
    assert "`penstock keys create NAME --scope admin`, or use 127.0.0.1." in last


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org"])
async def test_an_address_of_somebody_else(home: Path, host: str) -> None:
    assert "check api.host" in await refused("up", "--host", host, "--port", "0", PENSTOCK_HOME=str(home))


async def test_a_misspelt_setting(home: Path) -> None:
    said = await refused("up", PENSTOCK_HOME=str(home), PENSTOCK_POOL__SZIE="3")
    assert "Did you mean PENSTOCK_POOL__SIZE" in said
    (home / "penstock.toml").write_text("[pool]\nsze = 3\n")
    said = await refused("config", PENSTOCK_HOME=str(home))
    assert "pool.size" in said
    assert "penstock.toml" in said


async def test_a_wrong_value(home: Path) -> None:
    assert "PENSTOCK_POOL__SIZE" in await refused("config", PENSTOCK_HOME=str(home), PENSTOCK_POOL__SIZE="many")


async def test_a_database_that_does_not_answer(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql://u:secret-canary@127.0.0.1:{port}/x"
        said = await refused("up", "--port", "0", PENSTOCK_HOME=str(home), PENSTOCK_DATABASE_URL=url)
    assert "did not answer" in said
    assert "secret-canary" not in said


async def test_a_database_that_is_not_there(home: Path) -> None:
    url = "postgresql://u:secret-canary@127.0.0.1:1/x"
    said = await refused("up", "--port", "0", PENSTOCK_HOME=str(home), PENSTOCK_DATABASE_URL=url)
    assert "127.0.0.1:1 cannot be reached" in said
    assert "secret-canary" not in said


async def test_a_host_that_does_not_exist(home: Path) -> None:
    url = "postgresql://u:secret-canary@no-such-host.invalid/x"
    said = await refused("up", "--port", "0", PENSTOCK_HOME=str(home), PENSTOCK_DATABASE_URL=url)
    assert "no-such-host.invalid" in said


async def test_a_wrong_password(home: Path, database_url: DatabaseUrl) -> None:
    password = database_url.password
    assert password is not None
    url = database_url.reveal().replace(password, "secret-canary")
    said = await refused("up", "--port", "0", PENSTOCK_HOME=str(home), PENSTOCK_DATABASE_URL=url)
    assert "refused the password of penstock" in said
    assert "secret-canary" not in said


async def test_a_database_of_another_name(home: Path, database_url: DatabaseUrl) -> None:
    url = database_url.with_database("nowhere").reveal()
    said = await refused("up", "--port", "0", PENSTOCK_HOME=str(home), PENSTOCK_DATABASE_URL=url)
    assert "no database 'nowhere'" in said


async def test_a_user_who_may_not_change_the_schema(home: Path, database_url: DatabaseUrl) -> None:
    admin = await asyncpg.connect(database_url.reveal())
    role = f"app_{await admin.fetchval('select current_database()')}"
    await admin.execute("drop schema penstock cascade")
    await admin.execute(f"create role {role} login password 'app'")
    try:
        url = database_url.reveal().replace(f"penstock:{database_url.password}@", f"{role}:app@")
        environ = {"PENSTOCK_HOME": str(home), "PENSTOCK_DATABASE_URL": url}
        assert "database_owner_url" in await refused("up", "--port", "0", **environ)
        code, said = await penstock("db", "migrate", **environ, PENSTOCK_DATABASE_OWNER_URL=database_url.reveal())
        assert code == 0, said
        code, said = await penstock("db", "psql", "-Atc", "select count(*) > 0 from penstock.migrations", **environ)
        assert (code, said.strip()) == (0, "t"), "the owner lets the application's role work with what it made"
    finally:
        await admin.execute(f"drop owned by {role}")
        await admin.execute(f"drop role {role}")
        await admin.close()


async def test_a_server_that_is_too_old(home: Path) -> None:
    """No such server can be had here, so a few bytes of its protocol stand in for one."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!i", len(body) + 4) + body

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)  # the wish for TLS
        writer.write(b"N")
        await reader.read(1000)
        writer.write(message(b"R", struct.pack("!i", 0)))
        for name, value in (("server_version", "14.9"), ("client_encoding", "UTF8"), ("TimeZone", "UTC")):
            writer.write(message(b"S", name.encode() + b"\0" + value.encode() + b"\0"))
        writer.write(message(b"K", struct.pack("!ii", 1, 2)) + message(b"Z", b"I"))
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://u:p@127.0.0.1:{port}/x"
        said = await refused("up", "--port", "0", PENSTOCK_HOME=str(home), PENSTOCK_DATABASE_URL=url)
    assert "needs 15 or newer" in said
