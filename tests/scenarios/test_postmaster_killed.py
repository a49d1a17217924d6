"""The whole server dies under running jobs: nobody who lives is robbed, and nothing is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from penstock import Penstock
from penstock.database import EmbeddedServer
from penstock.errors import DatabaseUnreachable
from penstock.settings import PostgresSettings
from tests.scenarios import workshop
from tests.scenarios.crew import Crew


@pytest.fixture
async def crew(home: Path, tmp_path: Path) -> AsyncIterator[Crew]:
    """On a server of its own, which may be killed."""
    async with Penstock(home=home, pool={"size": 2}) as client:
        connection = await asyncpg.connect(client.dsn)
        await connection.execute(workshop.TABLES)
        made = Crew(client, connection, tmp_path, {"PENSTOCK_HOME": str(home)})
        try:
            yield made
        finally:
            await made.dismiss()
            made.connection.terminate()


def postmaster(home: Path) -> int:
    running = EmbeddedServer(home, PostgresSettings()).postmaster.running()
    assert running is not None
    return running.pid


async def look_again(crew: Crew) -> None:
    """The crew's own connection has died with the server."""
    crew.connection.terminate()
    async with asyncio.timeout(20):
        while crew.connection.is_closed():
            with suppress(DatabaseUnreachable):  # cut in the middle of the handshake
                crew.connection = await crew.client.database.direct("look")


@pytest.mark.parametrize("victim", ["the postmaster", "one backend"])
async def test_live_work_is_not_robbed(crew: Crew, home: Path, victim: str) -> None:
    """A killed postmaster comes back as a new one; a killed backend makes it drop all sessions, and go on as the same."""
    await crew.hire("--concurrency", "5")
    await crew.hire("--concurrency", "5")
    running = await crew.client.enqueue_many([workshop.make(seconds=4) for _ in range(10)])
    waiting = await crew.client.enqueue_many([workshop.make() for _ in range(50)])
    await crew.until("select count(*) = 10 from begun")

    pid = postmaster(home) if victim == "the postmaster" else crew.connection.get_server_pid()
    os.kill(pid, signal.SIGKILL)
    await look_again(crew)
    everywhere = "(select count(*) from penstock.jobs) + (select count(*) from penstock.job_history)"
    assert await crew.connection.fetchval(f"select {everywhere}") == 60
    await crew.until_over()

    history = await crew.history()
    assert {job: [each.outcome for each in history[job]] for job in running} == {job: ["done"] for job in running}
    assert await crew.effects() == dict.fromkeys([*running, *waiting], 1)
    assert await crew.charged() == 0
    assert await crew.connection.fetchval("select count(*) from penstock.workers where gone_at is null") == 2
