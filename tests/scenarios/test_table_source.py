"""Three workers read one table that eight others write, while workers are killed and the table's server restarts: each row
becomes one message, and those that are taken become one document each."""

import asyncio
import base64
import json
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.database import EmbeddedServer
from penstock.settings import PostgresSettings
from tests.scenarios.crew import Hand
from tests.scenarios.library import Library

WORKERS, WRITERS, KILLS, DOCUMENTS = 3, 8, 4, 200

SOURCE = """
[sources.orders]
type = "table"
url = "{url}"
table = "orders"
id = "id"
batch = 200
overlap = 300
sweep_every = "3s"
poll_every = "200ms"
collection = "papers"
"""


class Erp:
    """The other system, whose server is restarted."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.url = ""
        self.written = 0
        self.over = False  # a cancellation may be lost in the driver

    async def start(self) -> None:
        self.url = (await self._server.join()).url.reveal()

    async def restart(self) -> None:
        await self._server.postmaster.stop()
        await self.start()

    async def run(self, query: str) -> list[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            rows: list[Any] = await connection.fetch(query)
            return rows
        finally:
            await connection.close()

    async def write(self, number: int, rows: int) -> None:
        """Transactions of different lengths: a number is taken long before it is committed. A lost one is written again."""
        chance = random.Random(number)
        left = rows
        while left > 0 and not self.over:
            try:
                connection = await asyncpg.connect(self.url, timeout=5)
                try:
                    while left > 0 and not self.over:
                        count = min(left, chance.randint(1, rows // 6))
                        async with connection.transaction():
                            for _ in range(2):  # numbers of others lie between
                                await connection.execute(
                                    "insert into orders (content) select $1 from generate_series(1, $2)",
                                    base64.b64encode(f"Gate {number} was painted.".encode()).decode(),
                                    -(-count // 2),
                                )
                                await asyncio.sleep(chance.choice([0, 0.05, 0.2, 0.6]))
                        left -= 2 * -(-count // 2)
                        self.written += 2 * -(-count // 2)
                finally:
                    connection.terminate()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await asyncio.sleep(0.1)


@asynccontextmanager
async def erp_in(home: Path) -> AsyncIterator[Erp]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = EmbeddedServer(home, PostgresSettings(port=port, durable=False))
    erp = Erp(server)
    await erp.start()
    try:
        await erp.run("create table orders (id bigint generated always as identity primary key, content text)")
        yield erp
    finally:
        erp.over = True
        await server.leave()


@pytest.mark.parametrize("rows", [2_000, pytest.param(10_000, marks=pytest.mark.real)])
async def test_each_row_is_one_message(library: Library, home: Path, rows: int) -> None:
    async with erp_in(home) as erp:
        (library.home / "penstock.toml").write_text(SOURCE.format(url=erp.url))
        hands = list(await asyncio.gather(*(library.hire() for _ in range(WORKERS))))
        writing = asyncio.gather(*(erp.write(number, -(-rows // WRITERS)) for number in range(WRITERS)))
        pausing = asyncio.create_task(pause_after_some(library))
        restarting = asyncio.create_task(restart_halfway(erp, rows))
        await kill_some(library, hands)
        await asyncio.gather(writing, restarting)
        await pausing
        truth = {str(row["id"]) for row in await erp.run("select id from orders")}
        assert len(truth) >= rows
        await library.until("select count(*) = $1 from penstock.inbox where source = 'orders'", len(truth))
        messages = await library.connection.fetch("select message_id, number, repeats, state from penstock.inbox")
        assert {row["message_id"] for row in messages} == truth
        assert {(row["number"], row["repeats"]) for row in messages} == {(1, 0)}, "nobody has brought one twice"
        late = [each for log in library.home.glob("worker-*.log") for each in late_rows(log)]
        assert sum(late) > 0, "some were committed behind the back of the position"
        running = "select from penstock.jobs join penstock.inbox on inbox.job_id = jobs.id where jobs.state = 'running'"
        await library.until(f"select not exists ({running})", within=60)
        await library.until_over()
        taken = await library.connection.fetch("select id from penstock.inbox where state = 'taken'")
        assert len(taken) >= DOCUMENTS
        documents = await library.connection.fetch("select id, state from penstock.documents")
        assert sorted(row["id"] for row in documents) == sorted(row["id"] for row in taken)
        assert {row["state"] for row in documents} == {"ready"}
        assert await library.violations() == []
        assert await library.connection.fetchval("select count(*) from penstock.versions") == len(documents)


def late_rows(log: Path) -> list[int]:
    told = [json.loads(line) for line in log.read_text().splitlines() if "rows that came late are read" in line]
    return [each["rows"] for each in told]


async def pause_after_some(library: Library) -> None:
    """Documents cost more than messages: a part of them is enough."""
    await library.until(f"select count(*) >= {DOCUMENTS} from penstock.inbox where state = 'taken'", within=60)
    await library.product.app.pause(queue="inbox")


async def restart_halfway(erp: Erp, rows: int) -> None:
    async with asyncio.timeout(60):
        while erp.written < rows / 2:  # noqa: ASYNC110  counted by many
            await asyncio.sleep(0.02)
    await erp.restart()


async def kill_some(library: Library, hands: list[Hand]) -> None:
    """One after the other, each when its successor works."""
    chance = random.Random(7)
    for _ in range(KILLS):
        victim = chance.randrange(WORKERS)
        hands[victim].kill()
        hands[victim] = await library.hire()
