"""A broker restarts while messages are sent and taken, and a worker is killed: every message is here once, and none is lost."""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import asyncpg
import pytest
from aiormq.exceptions import AMQPError
from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from penstock.settings import DatabaseUrl
from tests.processes import Started, start
from tests.sources.brokers import Broker, Rabbit, ServiceBus

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # cut sockets, of the libraries
]
QUEUE = "orders"


class Sender:
    """Sends numbered messages until the broker has confirmed each; what was not confirmed is sent again, maybe twice."""

    def __init__(self, broker: Broker, count: int) -> None:
        self.url = broker.url
        self.count = count
        self.confirmed: set[int] = set()
        self.halfway = asyncio.Event()
        self.broker_ends = asyncio.Event()  # the last quarter is sent from then on: the end is always in the middle

    async def send_all(self, attempt: Callable[["Sender", list[int]], Coroutine[Any, Any, None]]) -> None:
        while missing := [number for number in range(self.count) if number not in self.confirmed]:
            try:
                async with asyncio.timeout(8):
                    await attempt(self, missing)
            except (AMQPError, AzureError, OSError, RuntimeError, ValueError):
                await asyncio.sleep(0.2)  # the broker is away

    async def note(self, *numbers: int) -> None:
        self.confirmed.update(numbers)
        if len(self.confirmed) >= self.count // 2:
            self.halfway.set()
        if len(self.confirmed) >= self.count * 3 // 4:
            await self.broker_ends.wait()


async def by_rabbit(sender: Sender, missing: list[int]) -> None:
    connection = await aio_pika.connect(sender.url, timeout=5)
    try:
        channel = await connection.channel()
        for start_at in range(0, len(missing), 20):
            numbers = missing[start_at : start_at + 20]
            await asyncio.gather(*(_publish(channel, number) for number in numbers))
            await sender.note(*numbers)
    finally:
        await connection.close()


async def _publish(channel: Any, number: int) -> None:
    message = aio_pika.Message(b'{"n": %d}' % number, message_id=str(number), delivery_mode=2)
    await channel.default_exchange.publish(message, QUEUE, timeout=3)


async def by_service_bus(sender: Sender, missing: list[int]) -> None:
    client = ServiceBusClient.from_connection_string(sender.url, retry_total=0)
    async with client, client.get_queue_sender(QUEUE) as queue:
        for start_at in range(0, len(missing), 5):
            numbers = missing[start_at : start_at + 5]
            await queue.send_messages([ServiceBusMessage(b'{"n": %d}' % n, message_id=str(n)) for n in numbers])
            await sender.note(*numbers)


@asynccontextmanager
async def two_workers(broker: Broker, database_url: DatabaseUrl, home: Path) -> AsyncIterator[list[Started]]:
    """Which take messages in, and leave them in the inbox."""
    environ = {
        "PENSTOCK_HOME": str(home),
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_POOL__SIZE": "4",
        "PENSTOCK_LOG__LEVEL": "warning",
        "PENSTOCK_SOURCES__ORDERS__TYPE": broker.type,
        "PENSTOCK_SOURCES__ORDERS__URL": broker.url,
        "PENSTOCK_SOURCES__ORDERS__QUEUE": QUEUE,
        "PENSTOCK_SOURCES__ORDERS__BATCH": "50",
    }
    arguments = ("-m", "penstock", "worker", "--queues", "upkeep=1")
    async with start(*arguments, environ=environ) as first, start(*arguments, environ=environ) as second:
        yield [first, second]


async def until_counted(connection: Any, least: int, within: float = 120) -> None:
    """So many messages are in the inbox."""
    async with asyncio.timeout(within):
        while await connection.fetchval("select count(*) from penstock.inbox") < least:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# The senders' libraries leave sockets behind when their broker is killed: they are collected here, and trouble no other test.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("make", "attempt", "count", "end"),
    [
        pytest.param(Rabbit, by_rabbit, 2000, signal.SIGTERM, id="rabbitmq"),
        pytest.param(ServiceBus, by_service_bus, 300, signal.SIGKILL, id="servicebus"),
    ],
)
async def test_a_restart_in_the_middle_loses_and_doubles_nothing(
    database_url: DatabaseUrl, tmp_path: Path, make: type[Broker], attempt: Any, count: int, end: signal.Signals
) -> None:
    broker = make()
    connection = await asyncpg.connect(database_url.reveal())
    try:
        await asyncio.to_thread(broker.start)
        sender = Sender(broker, count)
        async with two_workers(broker, database_url, tmp_path) as [victim, _]:
            await until_listening(connection)
            sending = asyncio.create_task(sender.send_all(attempt))
            await sender.halfway.wait()
            await until_counted(connection, 1)
            os.kill(victim.pid, signal.SIGKILL)
            assert len(sender.confirmed) < count, "it is in the middle"
            sender.broker_ends.set()
            await broker.restart(end)
            await sending
            await until_counted(connection, count)
        rows = await connection.fetch("select message_id, state, number, conflicts from penstock.inbox")
        assert sorted(int(row["message_id"]) for row in rows) == list(range(count))
        assert {(row["state"], row["number"], row["conflicts"]) for row in rows} == {("waiting", 1, 0)}
        jobs = "select count(*) from penstock.jobs join penstock.inbox on inbox.job_id = jobs.id"
        assert await connection.fetchval(jobs) == count, "each with its job"
        assert await connection.fetchval("select count(*) from penstock.jobs where state = 'dead'") == 0
    finally:
        await connection.close()
        broker.close()
        gc.collect()


async def until_listening(connection: Any) -> None:
    """A worker has reached the broker."""
    async with asyncio.timeout(60):
        while not await connection.fetchval("select count(polled_at) from penstock.sources"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
