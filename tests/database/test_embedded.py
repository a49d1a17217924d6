"""The embedded server: shared, self-healing, and never in the way of the next start."""

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest

from penstock.database import EmbeddedServer, open_database
from penstock.database.embedded import flock_holders
from penstock.database.postmaster import SOCKET_PATH_MAX
from penstock.errors import ConnectionLost, ServerUnusable
from penstock.settings import PoolSettings, PostgresSettings, Settings
from tests.polling import until
from tests.processes import penstock, start
from tests.slow import slow_but_first

USER = """
import asyncio, sys
from pathlib import Path
from penstock.database import EmbeddedServer
from penstock.settings import PostgresSettings

async def main():
    await EmbeddedServer(Path(sys.argv[1]), PostgresSettings()).join()
    print("joined", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def embedded(home: Path, **values: object) -> EmbeddedServer:
    return EmbeddedServer(home, PostgresSettings.model_validate(values))


async def answers(server: EmbeddedServer) -> bool:
    connection = await asyncpg.connect(server.url.reveal(), timeout=10)
    try:
        return bool(await connection.fetchval("select 1") == 1)
    finally:
        connection.terminate()


async def test_made_attached_stopped_started(home: Path) -> None:
    first, second = embedded(home), embedded(home)
    assert (await first.join()).how == "made"
    assert (await second.join()).how == "attached"
    await first.leave()
    assert await answers(second), "somebody still uses it"
    await second.leave()
    assert second.postmaster.running() is None, "the last one stops it"
    assert (await first.join()).how == "started"
    assert await answers(first)
    await first.leave()


@pytest.mark.slow
async def test_it_is_private_and_not_root(home: Path) -> None:
    server = embedded(home)
    await server.join()
    running = server.postmaster.running()
    assert running is not None
    assert psutil.Process(running.pid).uids().real != 0
    assert os.getsid(running.pid) == running.pid, "Ctrl-C must reach us first"
    assert stat.S_IMODE(server.postmaster.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "postgres.password").stat().st_mode) == 0o600
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"postgresql://penstock:wrong@127.0.0.1:{running.port}/penstock")
    await server.leave()


@pytest.mark.slow
async def test_many_processes_start_at_once_and_share_one_server(home: Path) -> None:
    outputs = await asyncio.gather(*(penstock("db", "start", "--json", PENSTOCK_HOME=str(home)) for _ in range(4)))
    assert [code for code, _ in outputs] == [0] * 4, outputs
    hows = sorted(
        line.split('"how": "')[1].split('"')[0]
        for _, output in outputs
        for line in output.splitlines()
        if "how" in line
    )
    assert hows == ["attached", "attached", "attached", "made"]


@pytest.mark.slow
async def test_a_killed_user_leaves_nothing_that_blocks(home: Path) -> None:
    async with start("-c", USER, str(home)) as user:
        await user.until("joined")
        assert flock_holders(home / "postgres.users") == [user.pid]
        user.process.kill()
        await user.end()
    server = embedded(home)
    assert (await server.join()).how == "attached"
    assert await answers(server)
    await server.leave()
    assert server.postmaster.running() is None


@pytest.mark.parametrize("after", slow_but_first([0.4, 0.15, 0.6, 0.8, 1.1]))
async def test_a_start_killed_in_the_middle_does_not_block_the_next(home: Path, after: float) -> None:
    async with start("-c", USER, str(home)) as user:
        await asyncio.sleep(after)
        user.process.kill()
        await user.end()
    server = embedded(home)
    await server.join()
    assert await answers(server)
    await server.leave()
    assert server.postmaster.running() is None
    assert not list((home / "postgres").glob("*.new"))


@pytest.mark.slow
async def test_a_killed_postmaster_loses_no_acknowledged_row(home: Path) -> None:
    settings = Settings(home=home, pool=PoolSettings(size=4))
    async with open_database(settings, role="test") as database:
        async with database.pool.session() as session:
            await session.execute("create table penstock.rows (n int primary key)")
        acknowledged: list[int] = []

        async def write(number: int) -> None:
            while True:
                number += 1
                async with database.pool.transaction() as tx:
                    await tx.execute("insert into penstock.rows values ($1)", number)
                acknowledged.append(number)

        writers = [asyncio.create_task(write(i * 1_000_000)) for i in range(4)]
        await until(lambda: len(acknowledged) >= 200)
        assert database.endpoint.server is not None
        running = database.endpoint.server.postmaster.running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        await asyncio.wait(writers, return_when=asyncio.FIRST_EXCEPTION)

        # The next use revives the server; a writer whose connection was idle when it was cut goes on unharmed.
        assert await database.pool.repeat(lambda session: session.fetchval("select count(*) from penstock.rows")) >= 200
        for writer in writers:
            writer.cancel()
        results = await asyncio.gather(*writers, return_exceptions=True)
        assert any(isinstance(result, ConnectionLost) for result in results), results
        rows = await database.pool.repeat(lambda session: session.fetch("select n from penstock.rows"))
        assert set(acknowledged) <= {row["n"] for row in rows}
        revived = database.endpoint.server.postmaster.running()
        assert revived is not None
        assert revived.pid != running.pid


@pytest.mark.slow
async def test_a_pid_file_of_another_process_is_not_believed(home: Path) -> None:
    server = embedded(home)
    await server.join()
    await server.leave()
    (server.postmaster.data / "postmaster.pid").write_text(
        f"{os.getpid()}\n{server.postmaster.data}\n1\n5432\n\n\n1 1\nready\n"
    )
    assert (await server.join()).how == "started"
    await server.leave()


@pytest.mark.slow
async def test_a_kept_server_outlives_its_users_until_it_is_stopped(home: Path) -> None:
    server, other = embedded(home), embedded(home)
    await server.join()
    server.keep()
    await other.join()
    with pytest.raises(ServerUnusable, match=str(os.getpid())):
        await server.stop()
    await other.leave()
    assert await answers(server)
    assert await server.stop()
    assert not await server.stop()


async def test_a_folder_of_an_older_major_version_gets_the_way_to_upgrade(home: Path) -> None:
    server = embedded(home)
    await server.join()
    await server.leave()
    (server.postmaster.data / "PG_VERSION").write_text("16\n")
    with pytest.raises(ServerUnusable, match="penstock db dump"):
        await server.join()
    (server.postmaster.data / "PG_VERSION").write_text("18\n")
    await server.join()
    await server.leave()


@pytest.mark.slow
async def test_a_home_with_a_long_path_is_reached_by_tcp(home: Path) -> None:
    long = home / ("x" * SOCKET_PATH_MAX)
    server = embedded(long)
    await server.join()
    assert "127.0.0.1" in server.url.reveal()
    assert await answers(server)
    await server.leave()


async def test_a_processor_that_cannot_run_it_gets_a_sentence(home: Path) -> None:
    program = home / "installation" / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nimport os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    if os.geteuid() == 0:  # the interpreter must be within reach of the server's account
        program.write_text("#!/bin/sh\nkill -ILL $$\n")
    program.chmod(0o755)
    program.parent.chmod(0o755)
    program.parent.parent.chmod(0o755)
    with pytest.raises(ServerUnusable, match="processor"):
        await embedded(home, binaries=str(home / "installation")).join()


async def test_wrong_binaries_get_a_sentence(home: Path) -> None:
    with pytest.raises(ServerUnusable, match=r"postgres\.binaries"):
        await embedded(home, binaries="/nowhere").join()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; tests/real has the same as another user")
async def test_a_home_that_is_closed_to_us_gets_a_sentence(home: Path) -> None:
    (home / "postgres").mkdir(mode=0o000)
    with pytest.raises(ServerUnusable, match="belongs to another user"):
        await embedded(home).join()
    (home / "postgres").rmdir()
    await embedded(home).join()


async def test_a_home_that_is_a_file_gets_a_sentence(home: Path) -> None:
    (home / "file").write_text("")
    with pytest.raises(ServerUnusable, match="PENSTOCK_HOME"):
        await embedded(home / "file").join()
