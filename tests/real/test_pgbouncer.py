"""Through pgbouncer in transaction mode: the pool works, LISTEN goes the direct way, and what is missing is said."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock import Context, Penstock
from penstock.database import open_database
from penstock.database.notifications import Notifications
from penstock.database.session import connect
from penstock.engine.connection_budget import connections_needed
from penstock.errors import DatabaseUnsuitable
from penstock.settings import DatabaseUrl, PoolSettings, Settings
from tests.conftest import make_home
from tests.processes import penstock
from tests.real.conftest import need_program


@pytest.fixture
async def pooled_url(database_url: DatabaseUrl) -> AsyncIterator[DatabaseUrl]:
    """A pgbouncer with two server connections for everybody, so that sessions really change hands."""
    program = need_program("pgbouncer", "pgbouncer")
    folder = make_home()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    query = dict(part.split("=") for part in database_url.reveal().split("?")[1].split("&"))
    (folder / "users.txt").write_text(f'"penstock" "{database_url.password}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={query['host']} port={query['port']}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = plain\nauth_file = {folder}/users.txt\npool_mode = transaction\ndefault_pool_size = 2\n"
        "max_client_conn = 200\n"
    )
    as_user = ["-u", "postgres"] if os.geteuid() == 0 else []  # who may enter the socket's folder
    process = await asyncio.create_subprocess_exec(
        program, *as_user, str(folder / "pgbouncer.ini"), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(10):
        while b"process up" not in said:
            line = await process.stderr.readline()
            assert line, said.decode()
            said += line
    drain = asyncio.create_task(process.stderr.read())
    name = database_url.reveal().split("?")[0].rsplit("/", 1)[1]
    yield DatabaseUrl(f"postgresql://penstock:{database_url.password}@127.0.0.1:{port}/{name}")
    process.kill()
    await process.wait()
    await drain


async def test_work_through_a_pooler(settings: Settings, database_url: DatabaseUrl, pooled_url: DatabaseUrl) -> None:
    behind = settings.model_copy(update={"database_url": pooled_url, "database_direct_url": database_url})
    async with open_database(behind, role="test") as database:
        assert database.endpoint.address.pooled
        assert database.notifications.arriving, "NOTIFY goes through the pooler, LISTEN around it"
        async with database.pool.transaction() as tx:
            assert await tx.fetchval("show statement_timeout") == "35s", "SET LOCAL, since nothing else survives"
            await tx.execute("create table penstock.t (n int)")

        async def add(number: int) -> int:
            async with database.pool.transaction() as tx:
                await tx.execute("insert into penstock.t values ($1)", number)
            async with database.pool.session() as session:  # prepared and run on one server, though there are two
                found: int = await session.fetchval("select n from penstock.t where n = $1", number)
                return found

        assert await asyncio.gather(*(add(number) for number in range(200))) == list(range(200))


async def test_a_pooler_without_a_direct_way_is_refused(
    settings: Settings, pooled_url: DatabaseUrl, tmp_path: Path
) -> None:
    with pytest.raises(DatabaseUnsuitable, match="database_direct_url"):
        async with open_database(settings.model_copy(update={"database_url": pooled_url}), role="test"):
            pytest.fail("it opened")
    code, said = await penstock("worker", PENSTOCK_HOME=str(tmp_path), PENSTOCK_DATABASE_URL=pooled_url.reveal())
    assert (code, "database_direct_url" in said) == (2, True), said


async def test_listening_through_a_pooler_is_known_to_be_deaf(
    settings: Settings, database_url: DatabaseUrl, pooled_url: DatabaseUrl
) -> None:
    async with open_database(settings, role="test") as database:
        deaf = Notifications(lambda: connect(pooled_url, PoolSettings(size=1), "listen", pooled=True), database.pool)
        await deaf.start()
        assert not deaf.arriving
        await deaf.close()


async def test_jobs_through_a_pooler(settings: Settings, database_url: DatabaseUrl, pooled_url: DatabaseUrl) -> None:
    """Heartbeats, locks and claims go the direct way; outcomes and effects through the pooler."""
    app = Penstock(home=settings.home, database_url=pooled_url, database_direct_url=database_url)

    @app.job()
    async def count(ctx: Context, n: int) -> int:
        if n % 2:
            async with ctx.finish(result=n) as tx:
                await tx.execute("insert into penstock.effects values ($1)", n)
        return n

    async with app:
        async with app.transaction() as tx:
            await tx.execute("create table penstock.effects (n int)")
        stop = asyncio.Event()
        work = asyncio.create_task(app.work(stop=stop, concurrency=20))
        numbers = await app.enqueue_many([count(n=n) for n in range(100)])
        assert [await app.result(number, timeout="30s") for number in numbers] == list(range(100))
        async with app.transaction() as tx:
            assert await tx.fetchval("select count(*) from penstock.effects") == 50
            counted = await tx.fetchval("select connections from penstock.workers")
            assert counted == connections_needed(8, pooled=True), "the pool's are the pooler's"
        stop.set()
        await work
