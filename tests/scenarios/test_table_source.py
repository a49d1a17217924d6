"""Three workers read one table that eight others write, while workers are killed and the table's server restarts: each row
becomes one message, and each message one packet; none is missed, and none is there twice. Of the packets a part is prepared."""

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
from tests.scenarios.product_processes import ProductProcesses
from tests.scenarios.worker_processes import WorkerProcess

pytestmark = pytest.mark.slow

WORKERS, WRITERS, KILLS, PREPARED = 3, 8, 4, 40

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
makes = "packet"
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
                                    "insert into orders (documents) select $1::json from generate_series(1, $2)",
                                    json.dumps([paper(number, "cover"), paper(number, "application")]),
                                    -(-count // 2),
                                )
                                await asyncio.sleep(chance.choice([0, 0.05, 0.2, 0.6]))
                        left -= 2 * -(-count // 2)
                        self.written += 2 * -(-count // 2)
                finally:
                    connection.terminate()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await asyncio.sleep(0.1)


def paper(number: int, name: str) -> dict[str, str]:
    content = base64.b64encode(f"The {name}: gate {number} was painted.".encode()).decode()
    return {"name": f"{name}.txt", "content": content}


@asynccontextmanager
async def erp_in(home: Path) -> AsyncIterator[Erp]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = EmbeddedServer(home, PostgresSettings(port=port, durable=False))
    erp = Erp(server)
    await erp.start()
    try:
        await erp.run("create table orders (id bigint generated always as identity primary key, documents json)")
        yield erp
    finally:
        erp.over = True
        await server.leave()


@pytest.mark.parametrize("rows", [1_000, pytest.param(10_000, marks=pytest.mark.real)])
async def test_each_row_is_one_packet(product_processes: ProductProcesses, home: Path, rows: int) -> None:
    async with erp_in(home) as erp:
        (product_processes.home / "penstock.toml").write_text(SOURCE.format(url=erp.url))
        hands = list(await asyncio.gather(*(product_processes.start_worker() for _ in range(WORKERS))))
        writing = asyncio.gather(*(erp.write(number, -(-rows // WRITERS)) for number in range(WRITERS)))
        pausing = asyncio.create_task(pause_after_some(product_processes))
        restarting = asyncio.create_task(restart_halfway(erp, rows))
        await kill_some(product_processes, hands)
        await asyncio.gather(writing, restarting)
        await pausing
        truth = {str(row["id"]) for row in await erp.run("select id from orders")}
        assert len(truth) >= rows
        taken = "select count(*) = $1 from penstock.inbox where source = 'orders' and state = 'taken'"
        await product_processes.until(taken, len(truth), within=30 + rows / 20)
        messages = await product_processes.connection.fetch(
            "select id, message_id, number, repeats, document_id from penstock.inbox"
        )
        assert {row["message_id"] for row in messages} == truth
        assert {(row["number"], row["repeats"]) for row in messages} == {(1, 0)}, "nobody has brought one twice"
        late = [each for log in product_processes.home.glob("worker-*.log") for each in late_rows(log)]
        assert sum(late) > 0, "some were committed behind the back of the position"
        await judge_packets(product_processes, {row["document_id"] for row in messages}, len(truth))
        assert await product_processes.violations() == []


async def judge_packets(product_processes: ProductProcesses, told: set[int], count: int) -> None:
    """Each message has exactly one packet with its two documents; those that began to be prepared are ready."""
    packets = await product_processes.connection.fetch(
        "select document_id, count(sourced.member_id) as members, count(distinct packet.version_id) as versions "
        "from penstock.packets as packet join penstock.packet_documents as sourced using (version_id) group by document_id"
    )
    assert {row["document_id"] for row in packets} == told
    assert len(packets) == len(told) == count
    assert {(row["members"], row["versions"]) for row in packets} == {(2, 1)}
    running = "select from penstock.jobs join penstock.lanes on lanes.id = lane where queue = 'documents' and state = 'running'"
    await product_processes.until(f"select not exists ({running})", within=60)
    prepared = await product_processes.connection.fetch(
        "select state, count(*) as count from penstock.documents where id = any ($1::bigint[]) group by state",
        list(told),
    )
    states = {row["state"]: row["count"] for row in prepared}
    assert states.keys() == {"queued", "ready"}
    assert states["ready"] >= PREPARED


def late_rows(log: Path) -> list[int]:
    told = [json.loads(line) for line in log.read_text().splitlines() if "rows that came late are read" in line]
    return [each["rows"] for each in told]


async def pause_after_some(product_processes: ProductProcesses) -> None:
    """Preparing a packet costs far more than making one of a message: a part of them is enough."""
    ready = (
        "select count(*) >= $1 from penstock.packets join penstock.documents on id = document_id where state = 'ready'"
    )
    await product_processes.until(ready, PREPARED, within=120)
    await product_processes.product.app.pause(queue="documents")


async def restart_halfway(erp: Erp, rows: int) -> None:
    async with asyncio.timeout(60):
        while erp.written < rows / 2:  # noqa: ASYNC110  counted by many
            await asyncio.sleep(0.02)
    await erp.restart()


async def kill_some(product_processes: ProductProcesses, hands: list[WorkerProcess]) -> None:
    """One after the other, each when its successor works."""
    chance = random.Random(7)
    for _ in range(KILLS):
        victim = chance.randrange(WORKERS)
        hands[victim].kill()
        hands[victim] = await product_processes.start_worker()
