"""The bus: a queue of a broker through which workers hear of accepted documents. What is on it may be lost, and is old soon.

bus = open_bus(settings.bus)
await bus.publish(body)                 # BrokerAway if it cannot
await bus.listen(heard)                 # calls heard(body) for each until BrokerAway, or cancelled
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from penstock.pipelines.brokers import CONNECT, need_aio_pika, need_azure, rabbit, service_bus
from penstock.settings.arriving import BusSettings

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

WHO = "the bus"
USEFUL = timedelta(minutes=1)  # by then everybody has looked by themselves
MOST = 10_000  # of these that wait while nobody listens
CALL = 10.0  # seconds for one answer of the broker
LOOK_EVERY = 5.0  # seconds between looks whether the broker is still there
AHEAD = 100

Heard = Callable[[bytes], None]


class Bus(Protocol):
    """One of these for each process."""

    async def publish(self, body: bytes) -> None:
        """Returns when the broker has it."""

    async def listen(self, heard: Heard) -> None:
        """Until cancelled, or the broker is away."""

    async def close(self) -> None:
        """Give back what publishing has opened."""


def open_bus(chosen: BusSettings) -> Bus:
    """The bus of the settings, which is not off."""
    url = chosen.url.get_secret_value() if chosen.url else ""
    return RabbitBus(url, chosen.queue) if chosen.type == "rabbitmq" else ServiceBusBus(url, chosen.queue)


class _Publishing(ABC):
    """Keeps a connection open between messages; after a failure the next one begins anew."""

    def __init__(self, url: str, queue: str) -> None:
        self._url = url
        self._queue = queue
        self._open: AsyncExitStack | None = None
        self._turn = asyncio.Lock()
        self._sender: Any = None

    @abstractmethod
    async def _enter(self, stack: AsyncExitStack) -> Any:
        """Connect: what messages are sent by, closed with the stack."""

    @abstractmethod
    async def _send(self, sender: Any, body: bytes) -> None:
        """One message."""

    async def publish(self, body: bytes) -> None:
        async with self._turn:
            if self._open is None:
                async with AsyncExitStack() as stack:
                    self._sender = await self._enter(stack)
                    self._open = stack.pop_all()
            try:
                async with asyncio.timeout(CALL):
                    await self._send(self._sender, body)
            except BaseException as error:
                stack, self._open = self._open, None
                await stack.__aexit__(type(error), error, error.__traceback__)  # which says it in its own words
                raise

    async def close(self) -> None:
        async with self._turn:
            if self._open is not None:
                await self._open.aclose()
                self._open = None


class RabbitBus(_Publishing):
    """A queue that forgets."""

    def __init__(self, url: str, queue: str) -> None:
        need_aio_pika(WHO)
        super().__init__(url, queue)

    async def _enter(self, stack: AsyncExitStack) -> Any:
        connection = await stack.enter_async_context(rabbit(self._url, WHO))
        async with asyncio.timeout(CONNECT):
            channel = await connection.channel()
            await self._declare(channel)
        return channel

    async def _send(self, sender: Any, body: bytes) -> None:
        from aio_pika import Message

        await sender.default_exchange.publish(Message(body, content_type="application/json"), self._queue)

    async def listen(self, heard: Heard) -> None:
        gone = asyncio.Event()

        async def hear(message: "AbstractIncomingMessage") -> None:
            heard(message.body)
            await message.ack()

        async with rabbit(self._url, WHO) as connection:
            async with asyncio.timeout(CONNECT):
                channel = await connection.channel(publisher_confirms=False)
                channel.close_callbacks.add(lambda *_: gone.set())
                queue = await self._declare(channel)
                await channel.set_qos(prefetch_count=AHEAD)
                await queue.consume(hear)
            while not gone.is_set():
                try:
                    async with asyncio.timeout(LOOK_EVERY):
                        await gone.wait()
                except TimeoutError:
                    async with asyncio.timeout(CALL):
                        await channel.declare_queue(self._queue, passive=True)
            raise ConnectionError("the broker has closed the channel")

    async def _declare(self, channel: "AbstractChannel") -> "AbstractQueue":
        forgets: dict[str, Any] = {"x-message-ttl": int(USEFUL.total_seconds() * 1000), "x-max-length": MOST}
        return await channel.declare_queue(self._queue, durable=True, arguments=forgets)


class ServiceBusBus(_Publishing):
    """A queue that was made there; its messages have an end of their own."""

    def __init__(self, url: str, queue: str) -> None:
        need_azure(WHO)
        super().__init__(url, queue)

    async def _enter(self, stack: AsyncExitStack) -> Any:
        client = await stack.enter_async_context(service_bus(self._url, WHO))
        async with asyncio.timeout(CONNECT):
            return await stack.enter_async_context(client.get_queue_sender(self._queue))

    async def _send(self, sender: Any, body: bytes) -> None:
        from azure.servicebus import ServiceBusMessage

        message = ServiceBusMessage(body, content_type="application/json", time_to_live=USEFUL)
        await sender.send_messages(message)

    async def listen(self, heard: Heard) -> None:
        async with service_bus(self._url, WHO) as client, client.get_queue_receiver(self._queue) as receiver:
            while True:
                async with asyncio.timeout(
                    LOOK_EVERY + CALL
                ):  # one by one: for several the library waits another 0.2 s
                    came = await receiver.receive_messages(max_message_count=1, max_wait_time=LOOK_EVERY)
                for message in came:
                    heard(b"".join(message.body))
                    async with asyncio.timeout(CALL):
                        await receiver.complete_message(message)
