"""A queue of Service Bus by the real library: what it holds is here once, and the broker forgets it only when it is."""

import asyncio
import gc
import json
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient

from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import Sources
from tests.sources.brokers import (
    ServiceBus,
    inbox,
    receiving,
    shared_service_bus,
    trouble_of,
    until_there,
    until_trouble,
)

# The library leaves the socket of a connection that was cut to the garbage collector.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """While the warning is not an error."""
    yield
    gc.collect()


@pytest.fixture
def bus() -> ServiceBus:
    return shared_service_bus()


@pytest.fixture
async def client(bus: ServiceBus) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(bus.url) as made:
        yield made


@pytest.fixture
def queue() -> str:
    return f"orders-{secrets.token_hex(4)}"


async def publish(client: ServiceBusClient, queue: str, *bodies: Any, **properties: Any) -> None:
    """Objects as JSON, numbered by their id as the library would do it at random; bytes as they are."""
    messages = []
    for body in bodies:
        number = {"message_id": str(body["id"])} if isinstance(body, dict) and "id" in body else {}
        content = body if isinstance(body, bytes) else json.dumps(body)
        messages.append(ServiceBusMessage(content, **{**number, **properties}))
    async with client.get_queue_sender(queue) as sender:
        for start in range(0, len(messages), 100):
            some = messages[start : start + 100]
            await sender.send_messages(some if len(some) > 1 else some[0])


async def dead_letters(client: ServiceBusClient, queue: str, count: int) -> list[tuple[bytes, str]]:
    """What the broker's dead letters hold, with the reasons; it is taken out."""
    receiver = client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    found: list[tuple[bytes, str]] = []
    async with receiver, asyncio.timeout(20):
        while len(found) < count:
            for each in await receiver.receive_messages(max_message_count=10, max_wait_time=1):
                found.append((b"".join(each.body), each.dead_letter_error_description or ""))
                await receiver.complete_message(each)
    return found


async def test_a_check_reads_and_changes_nothing(
    database_url: DatabaseUrl, tmp_path: Path, bus: ServiceBus, client: ServiceBusClient, queue: str
) -> None:
    chosen = {"type": "servicebus", "url": bus.url, "queue": queue}
    async with Product(
        database_url=database_url, home=tmp_path, pool={"size": 4}, sources={"orders": chosen}
    ) as product:
        await publish(client, queue, {"id": 1}, {"id": 2})
        found = await Sources(product).check("orders")
        assert (found.new, found.more, found.examples) == (2, False, ["1", "2"])
        assert await inbox(product) == []
    async with receiving(database_url, tmp_path, bus, queue) as product:
        assert len(await until_there(product, 2)) == 2


async def is_empty(client: ServiceBusClient, queue: str) -> bool:
    async with client.get_queue_receiver(queue) as receiver:
        return await receiver.receive_messages(max_message_count=1, max_wait_time=1) == []


async def test_messages_come_once_and_are_completed(
    database_url: DatabaseUrl, tmp_path: Path, bus: ServiceBus, client: ServiceBusClient, queue: str
) -> None:
    async with receiving(database_url, tmp_path, bus, queue) as product:
        await publish(client, queue, *({"id": number} for number in range(300)))
        await publish(client, queue, {"of": "the body"}, message_id="its own")
        await publish(client, queue, {"id": 3}, content_type="image/png")
        rows = await until_there(product, 301, repeats=1)
        assert {"0", "299", "its own"} < {row["message_id"] for row in rows}
        assert {row["message_id"]: row["repeats"] for row in rows}["3"] == 1
        assert await trouble_of(product) is None
    assert await is_empty(client, queue)


async def test_messages_after_a_repeat_are_taken_at_once(
    database_url: DatabaseUrl, tmp_path: Path, bus: ServiceBus, client: ServiceBusClient, queue: str
) -> None:
    """A repeat begins another batch of what was received: the messages after it do not wait until their locks end."""
    numbers = [*range(10), 3, *range(10, 20), 13, *range(20, 30)]
    await publish(client, queue, *({"id": number} for number in numbers))  # no source runs yet: it receives all at once
    async with receiving(database_url, tmp_path, bus, queue) as product:
        rows = await until_there(product, 30, repeats=2)
        assert sorted(int(row["message_id"]) for row in rows) == list(range(30))
        assert {int(row["message_id"]): row["repeats"] for row in rows if row["repeats"]} == {3: 1, 13: 1}


async def test_poison_is_dead_lettered_with_its_reason(
    database_url: DatabaseUrl, tmp_path: Path, bus: ServiceBus, client: ServiceBusClient, queue: str
) -> None:
    large = b'{"x": "' + b"x" * 2 * 2**20 + b'"}'
    async with receiving(database_url, tmp_path, bus, queue, largest="1MB", on_change="error") as product:
        await publish(client, queue, b"\xff no JSON", b"[1]", {"id": "good"})
        await publish(client, queue, large)
        await publish(client, queue, {"id": "same", "v": 1}, {"id": "same", "v": 2})
        rows = await until_there(product, 5)
        letters = dict(await dead_letters(client, queue, 4))
        assert "not JSON" in letters[b"\xff no JSON"]
        assert "not a JSON object but an array" in letters[b"[1]"]
        assert "more than 1MB (largest of its source)" in letters[large]
        assert "same came before with other content" in letters[b'{"id": "same", "v": 2}']
        reasons = [json.loads(row["payload"]).get("penstock:poison") for row in rows]
        assert sum(reason is not None for reason in reasons) == 3
        [same] = [row for row in await inbox(product) if row["message_id"] == "same"]
        assert (json.loads(same["payload"])["v"], same["conflicts"]) == (1, 1)
    assert await is_empty(client, queue)


async def test_a_full_inbox_leaves_messages_at_the_broker(
    database_url: DatabaseUrl, tmp_path: Path, bus: ServiceBus, client: ServiceBusClient, queue: str
) -> None:
    await publish(client, queue, *({"id": number} for number in range(30)))
    async with receiving(database_url, tmp_path, bus, queue, waiting=10, poll_every="50ms") as product:
        assert len(await until_there(product, 10)) == 10
        await product.app.database.pool.repeat(
            lambda session: session.execute("update penstock.inbox set state = 'taken', payload = null")
        )
        assert len(await until_there(product, 20)) == 20
    async with client.get_queue_receiver(queue) as receiver:
        left = await receiver.receive_messages(max_message_count=30, max_wait_time=2)
        assert len(left) == 10
        assert {each.delivery_count or 0 for each in left} == {0}, "nobody had them before"


async def test_a_lock_that_is_lost_is_a_repeat(database_url: DatabaseUrl, tmp_path: Path, queue: str) -> None:
    """The commit takes longer than the lock: what comes again is counted, and is there once."""
    short = ServiceBus(lock_seconds=1)
    try:
        short.start()
        async with receiving(database_url, tmp_path, short, queue) as product:
            pool = product.app.database.pool
            async with ServiceBusClient.from_connection_string(short.url) as client:
                await publish(client, queue, *({"id": number} for number in range(5)))
                await until_there(product, 5)
                async with asyncio.timeout(20):
                    async with pool.transaction() as tx:  # the next commit has to wait for us
                        await tx.execute("lock table penstock.inbox in exclusive mode")
                        await publish(client, queue, {"id": "late"})
                        while not await _waits(product):  # noqa: ASYNC110
                            await asyncio.sleep(0.02)
                        await asyncio.sleep(1.3)  # the length of the lock, which is the broker's clock
                    rows = await until_there(product, 6)
                    while not (late := [row for row in rows if row["message_id"] == "late" and row["repeats"]]):
                        await asyncio.sleep(0.05)
                        rows = await inbox(product)
                assert len(late) == 1
                assert len(rows) == 6
                assert await is_empty(client, queue)
    finally:
        short.close()


async def _waits(product: Any) -> bool:
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    return bool(await product.app.database.pool.repeat(lambda session: session.fetchval(query)))


async def test_the_broker_disappears_in_the_middle(database_url: DatabaseUrl, tmp_path: Path, queue: str) -> None:
    bus = ServiceBus()
    try:
        bus.start()
        async with receiving(database_url, tmp_path, bus, queue) as product:
            async with ServiceBusClient.from_connection_string(bus.url) as client:
                await publish(client, queue, *({"id": number} for number in range(200)))
            bus.stop(signal.SIGKILL)
            error = await until_trouble(product)
            assert "Service Bus cannot be used for the source orders" in error
            assert "eA==" not in error
            bus.start()
            async with ServiceBusClient.from_connection_string(bus.url) as client:
                await publish(client, queue, *({"id": number} for number in range(200, 250)))
                rows = await until_there(product, 250)
                assert sorted(int(row["message_id"]) for row in rows) == list(range(250))
                async with asyncio.timeout(20):
                    while await trouble_of(product):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
    finally:
        bus.close()


async def test_the_broker_restarts_before_messages_are_completed(
    database_url: DatabaseUrl, tmp_path: Path, queue: str
) -> None:
    """Many completions fail at once while the broker is there again: the source connects once more, and all of it goes on."""
    bus = ServiceBus()
    try:
        bus.start()
        async with receiving(database_url, tmp_path, bus, queue) as product:
            async with product.app.database.pool.transaction() as tx:
                await tx.execute("lock table penstock.inbox in exclusive mode")  # the commit has to wait for us
                async with ServiceBusClient.from_connection_string(bus.url) as client:
                    await publish(client, queue, *({"id": number} for number in range(50)))
                while not await _waits(product):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                await bus.restart(signal.SIGKILL)
            rows = await until_there(product, 50, repeats=50)
            assert sorted(int(row["message_id"]) for row in rows) == list(range(50))
            assert _connections_to(bus.port) == 1, "none is left behind"
    finally:
        bus.close()


def _connections_to(port: int) -> int:
    """How many this process has open; those whose other end is gone do not count."""
    found = psutil.Process().net_connections("tcp")
    return sum(
        bool(each.raddr) and each.raddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found
    )
