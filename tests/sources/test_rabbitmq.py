"""A queue of a real RabbitMQ: what it holds is here once, and the broker forgets it only when it is."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aiormq import spec
from aiormq.exceptions import DeliveryError

from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import Sources
from tests.sources.brokers import Rabbit, inbox, receiving, shared_rabbit, trouble_of, until_there, until_trouble

pytestmark = pytest.mark.real


@pytest.fixture
def rabbit() -> Rabbit:
    return shared_rabbit()


@pytest.fixture
async def channel(rabbit: Rabbit) -> AsyncIterator[AbstractChannel]:
    """With confirms."""
    connection = await aio_pika.connect(rabbit.url)
    yield await connection.channel()
    await connection.close()


@pytest.fixture
def queue() -> str:
    return f"orders-{secrets.token_hex(4)}"


class Unnumbered(str):
    """Empty, and not replaced by a random number, which is what the library does with an empty one."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True


async def publish(channel: AbstractChannel, queue: str, *bodies: Any, **properties: Any) -> None:
    """Objects as JSON, bytes as they are; returns when the broker has them."""
    below = await channel.get_underlay_channel()
    usual: dict[str, Any] = {"message_id": Unnumbered(), "delivery_mode": 2}

    async def send(body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        wanted = spec.Basic.Properties(**(usual | properties))
        while True:
            try:
                await below.basic_publish(content, routing_key=queue, properties=wanted)
            except DeliveryError:  # a queue that was just made has no leader yet
                await asyncio.sleep(0.05)
            else:
                return

    await asyncio.gather(*map(send, bodies))


async def until_declared(channel: AbstractChannel, queue: str) -> None:
    """The source has made its queue."""
    async with asyncio.timeout(30):
        while True:
            probe = await channel.get_underlay_channel()
            look = await probe.connection.channel()
            try:
                await look.queue_declare(queue, passive=True)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                await asyncio.sleep(0.05)
            else:
                await look.close()
                return


async def left_in(channel: AbstractChannel, queue: str, expected: int) -> int:
    """Messages that wait in a queue, when that are so many as expected, or in the end; a quorum queue counts with a delay."""
    found = -1
    for _ in range(200):
        declared = await channel.declare_queue(queue, passive=True)
        found = declared.declaration_result.message_count or 0
        if found == expected:
            break
        await asyncio.sleep(0.05)
    return found


async def test_messages_come_once_and_are_acknowledged(
    database_url: DatabaseUrl, tmp_path: Path, rabbit: Rabbit, channel: AbstractChannel, queue: str
) -> None:
    async with receiving(database_url, tmp_path, rabbit, queue) as product:
        await until_declared(channel, queue)
        await publish(channel, queue, *({"id": number, "content": "eA=="} for number in range(700)))
        await publish(channel, queue, {"content": "eA=="}, message_id="its own")
        await publish(channel, queue, {"id": 3, "content": "eA=="}, {"no": "number"})
        await publish(channel, queue, {"id": 10_000, "content": "eA=="}, content_type="text/plain")
        rows = await until_there(product, 703, repeats=1)
        numbers = {row["message_id"] for row in rows}
        assert {"0", "699", "10000", "its own"} < numbers
        [unnumbered] = [row for row in rows if row["payload"] == '{"no": "number"}']
        assert len(unnumbered["message_id"]) == 64, "the digest of its body"
        assert await left_in(channel, queue, 0) == 0
        [three] = [row for row in await inbox(product) if row["message_id"] == "3"]
        assert (three["repeats"], three["number"]) == (1, 1)
    # Nothing was held back for another time.
    async with receiving(database_url, tmp_path, rabbit, queue) as product:
        await publish(channel, queue, {"id": "last"})
        assert len(await until_there(product, 704)) == 704
        [source] = await product.app.database.pool.repeat(
            lambda session: session.fetch("select error, polled_at from penstock.sources")
        )
        assert source["error"] is None
        assert source["polled_at"] is not None


async def test_a_check_reads_and_changes_nothing(
    database_url: DatabaseUrl, tmp_path: Path, rabbit: Rabbit, channel: AbstractChannel, queue: str
) -> None:
    chosen = {"type": "rabbitmq", "url": rabbit.url, "queue": queue}
    async with Product(
        database_url=database_url, home=tmp_path, pool={"size": 4}, sources={"orders": chosen}
    ) as product:
        sources = Sources(product)
        found = await sources.check("orders")
        assert (found.new, found.findings) == (0, [f"The queue {queue} does not exist yet: a worker creates it."])
        await channel.declare_queue(queue, durable=True)
        await publish(channel, queue, {"id": 1}, {"id": 2})
        assert await left_in(channel, queue, 2) == 2
        assert (await sources.check("orders")).new == 2
        assert await left_in(channel, queue, 2) == 2
        assert await inbox(product) == []


@pytest.mark.parametrize(
    ("body", "properties", "reason"),
    [
        (b"\xff\xfe\x00 no text", {}, "not JSON"),
        (b'{"a": ', {"message_id": "m"}, "not JSON"),
        (b"[1, 2]", {}, "but an array"),
        (b'{"a": NaN}', {}, "not JSON"),
        (b"[" * 100_000, {}, "too deeply"),
        (b"", {}, "not JSON"),
        (b"x" * 100 * 2**20, {"content_type": "application/json"}, "100MB"),
        (b"\x1f\x8b\x08", {"content_encoding": "gzip"}, "encoded as 'gzip'"),
        (b'{"id": "' + b"[" * 3000 + b'", "deep": ' + b"[" * 900 + b"]" * 900 + b"}", {}, ""),
    ],
)
async def test_poison_is_rejected_and_kept_with_its_reason(
    database_url: DatabaseUrl,
    tmp_path: Path,
    rabbit: Rabbit,
    channel: AbstractChannel,
    queue: str,
    body: bytes,
    properties: dict[str, Any],
    reason: str,
) -> None:
    async with receiving(database_url, tmp_path, rabbit, queue) as product:
        await until_declared(channel, queue)
        await publish(channel, queue, body, **properties)
        await publish(channel, queue, {"id": "good"})
        bad, good = sorted(await until_there(product, 2), key=lambda row: row["message_id"] == "good")
        assert good["message_id"] == "good"
        payload = json.loads(bad["payload"])
        assert reason in payload.get("penstock:poison", "")
        dead = 1 if reason else 0
        assert await left_in(channel, f"{queue}.dead", dead) == dead
        assert await left_in(channel, queue, 0) == 0
        if dead:
            letters = await channel.declare_queue(f"{queue}.dead", passive=True)
            letter = await letters.get()
            assert letter.body == body, "as it came"
            await letter.ack()


async def test_the_same_number_with_other_content(
    database_url: DatabaseUrl, tmp_path: Path, rabbit: Rabbit, channel: AbstractChannel, queue: str
) -> None:
    """Also when both come together: the first one counts, and the others are dead letters of the broker."""
    async with receiving(database_url, tmp_path, rabbit, queue, on_change="error"):
        await until_declared(channel, queue)
    await publish(channel, queue, {"id": "a", "v": 1}, {"id": "a", "v": 2}, {"id": "b"}, {"id": "a", "v": 3})
    async with receiving(database_url, tmp_path, rabbit, queue, on_change="error") as product:
        assert await left_in(channel, f"{queue}.dead", 2) == 2
        a, b = await until_there(product, 2)
        assert (json.loads(a["payload"])["v"], a["conflicts"], a["number"]) == (1, 2, 1)
        assert b["message_id"] == "b"
    async with receiving(database_url, tmp_path, rabbit, queue, on_change="version") as product:
        await publish(channel, queue, {"id": "a", "v": 4}, {"id": "b"})
        a, b = await until_there(product, 2, repeats=1)
        assert await left_in(channel, queue, 0) == 0
        assert (json.loads(a["payload"])["v"], a["number"], b["repeats"]) == (4, 2, 1)


async def test_a_full_inbox_leaves_messages_at_the_broker(
    database_url: DatabaseUrl, tmp_path: Path, rabbit: Rabbit, channel: AbstractChannel, queue: str
) -> None:
    async with receiving(database_url, tmp_path, rabbit, queue, waiting=20, poll_every="50ms") as product:
        await until_declared(channel, queue)
        await publish(channel, queue, *({"id": number} for number in range(100)))
        assert len(await until_there(product, 20)) == 20
        # All others are with the broker, for anybody: none is in our hands.
        assert await left_in(channel, queue, 80) == 80
        await product.app.database.pool.repeat(
            lambda session: session.execute("update penstock.inbox set state = 'taken', payload = null")
        )
        assert len(await until_there(product, 40)) == 40
        assert await left_in(channel, queue, 60) == 60


async def test_a_queue_of_somebody_else_is_used_as_it_is(
    database_url: DatabaseUrl, tmp_path: Path, rabbit: Rabbit, channel: AbstractChannel, queue: str
) -> None:
    await channel.declare_queue(queue, durable=True, arguments={"x-max-length": 1000})
    await publish(channel, queue, {"id": "a"}, b"no JSON")
    async with receiving(database_url, tmp_path, rabbit, queue) as product:
        rows = await until_there(product, 2)
        assert "penstock:poison" in rows[1]["payload"]
        assert await left_in(channel, queue, 0) == 0


async def test_the_broker_disappears_in_the_middle(database_url: DatabaseUrl, tmp_path: Path, queue: str) -> None:
    """Killed, with messages under way: trouble is noted, and afterwards everything is here once."""
    node = Rabbit()
    try:
        node.start()
        async with receiving(database_url, tmp_path, node, queue) as product:
            connection = await aio_pika.connect(node.url)
            channel = await connection.channel()
            await until_declared(channel, queue)
            await publish(channel, queue, *({"id": number} for number in range(300)))
            node.stop()
            error = await until_trouble(product)
            assert "RabbitMQ cannot be used for the source orders" in error
            assert "guest:guest" not in error
            node.start()
            connection = await aio_pika.connect(node.url)
            channel = await connection.channel()
            await publish(channel, queue, *({"id": number} for number in range(300, 400)))
            rows = await until_there(product, 400)
            assert sorted(int(row["message_id"]) for row in rows) == list(range(400))
            assert await left_in(channel, queue, 0) == 0
            assert await trouble_of(product) is None
            await connection.close()
    finally:
        node.close()
