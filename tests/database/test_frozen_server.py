"""A server that is stopped with SIGSTOP: calls end at their deadline, and work goes on when it wakes up."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.database import EmbeddedServer, open_database
from penstock.errors import CallTimedOut
from penstock.settings import PoolSettings, PostgresSettings, Settings


@contextmanager
def frozen(server: EmbeddedServer) -> Iterator[None]:
    running = server.postmaster.running()
    assert running is not None
    postmaster = psutil.Process(running.pid)
    pids = [running.pid, *(child.pid for child in postmaster.children(recursive=True))]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def test_calls_on_a_frozen_server_end_at_their_deadline(home: Path) -> None:
    settings = Settings(
        home=home,
        postgres=PostgresSettings(durable=False),
        pool=PoolSettings.model_validate({"size": 2, "call_timeout": 1, "connect_timeout": 1}),
    )
    async with open_database(settings, role="test") as database:
        assert database.endpoint.server is not None
        async with database.pool.session() as session:
            await session.execute("create table penstock.t (n int)")
        with frozen(database.endpoint.server):
            began = time.monotonic()
            with pytest.raises(CallTimedOut):
                async with database.pool.session() as session:
                    await session.fetchval("select 1")
            assert 0.9 < time.monotonic() - began < 1.9, "one deadline for the whole block"

            began = time.monotonic()
            with pytest.raises(CallTimedOut):
                async with database.pool.transaction() as tx:
                    await tx.execute("insert into penstock.t values (1)")
            assert 0.9 < time.monotonic() - began < 1.9, "one deadline for the whole block"
        async with asyncio.timeout(10):
            assert await database.pool.repeat(lambda session: session.fetchval("select 2")) == 2
            assert await database.pool.repeat(lambda session: session.fetchval("select count(*) from penstock.t")) == 0


@pytest.mark.slow
async def test_a_frozen_server_cannot_keep_us_from_leaving(home: Path) -> None:
    settings = Settings(
        home=home,
        postgres=PostgresSettings(durable=False),
        pool=PoolSettings.model_validate({"size": 2, "call_timeout": 1}),
    )
    server = EmbeddedServer(home, settings.postgres)
    await server.join()  # a second user: otherwise leaving would wait for the server's stop
    async with open_database(settings, role="test") as database:
        stopping = frozen(server)
        stopping.__enter__()
        await database.pool.close()
        await database.notifications.close()
        stopping.__exit__(None, None, None)
    await server.leave()
