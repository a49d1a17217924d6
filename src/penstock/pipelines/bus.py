"""The wake-up bus: a queue of a broker on which accepted documents are published, so that workers claim their jobs at once.

    bus = open_bus(settings.bus)
    await bus.publish(body)                 # BrokerAway if it cannot
    await bus.listen(heard)                 # calls heard(body) for each until BrokerAway, or cancelled

What is on it may be lost, and is old after a minute: workers also poll. Connections to RabbitMQ (aio-pika) and to Service Bus
(Azure's library), both of them extras, are opened here for the sources as well.
"""

import asyncio
import contextlib
import json
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from penstock.database import Session, statements
from penstock.engine import Context, Penstock
from penstock.errors import BadSetting, PenstockError, Transient
from penstock.settings import BusSettings
from penstock.telemetry import log, mask

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
    from azure.servicebus.aio import ServiceBusClient

sql = statements(__file__)

CONNECT = 15.0  # seconds to connect to the broker
CLOSE = 5.0  # seconds to close the connection
CALL = 10.0  # seconds for one answer of the broker
CHECK_EVERY = 5.0  # seconds between checks whether the broker is still there
WHO = "the bus"
USEFUL = timedelta(minutes=1)  # by then every worker has polled
MOST = 10_000  # messages that wait while no worker listens
AHEAD = 100  # messages that the broker sends ahead
TRIES = 3  # of the job; by then it is not needed any more
REST = 5.0  # seconds after a failure in which nothing is published right after a commit
FIRST_REST, LONGEST_REST = 1.0, 30.0  # seconds between attempts to listen
PENDING = 1000  # messages that are published right after their commit; others by their jobs


class BrokerAway(PenstockError):
    """The broker cannot be used as things are."""


def need_aio_pika(who: str) -> None:
    """Refuse to start without it."""
    try:
        import aio_pika  # noqa: F401
    except ImportError:
        raise BadSetting(_missing(who, "aio-pika", "rabbitmq")) from None


def need_azure(who: str) -> None:
    """Refuse to start without it."""
    try:
        import azure.servicebus  # noqa: F401
    except ImportError:
        raise BadSetting(_missing(who, "azure-servicebus", "servicebus")) from None


def _missing(who: str, package: str, extra: str) -> str:
    return f"{who[0].upper()}{who[1:]} needs {package}, which is not installed: pip install 'penstock[{extra}]'."


@asynccontextmanager
async def rabbit(url: str, who: str) -> AsyncIterator["AbstractConnection"]:
    """A connection until the end of the block; all that goes wrong with it is BrokerAway."""
    import aio_pika
    from aiormq.exceptions import AMQPError

    connection: AbstractConnection | None = None
    try:
        async with asyncio.timeout(CONNECT):
            connection = await aio_pika.connect(url, client_properties={"connection_name": f"penstock {who}"})
        yield connection
    except PenstockError:
        raise
    except (AMQPError, OSError, RuntimeError) as error:  # RuntimeError: of a connection that has just been closed
        said = mask(str(error)) or type(error).__name__
        raise BrokerAway(
            f"RabbitMQ cannot be used for {who}: {said}. Check that it runs, and that the url is right."
        ) from error
    finally:
        if connection is not None:
            with contextlib.suppress(AMQPError, OSError, RuntimeError):
                async with asyncio.timeout(CLOSE):
                    await connection.close()


@asynccontextmanager
async def service_bus(url: str, who: str, *, retries: int = 1) -> AsyncIterator["ServiceBusClient"]:
    """A client until the end of the block; all that goes wrong with it is BrokerAway. `retries` are the library's own."""
    from azure.core.exceptions import AzureError
    from azure.servicebus.aio import ServiceBusClient

    logging.getLogger("azure").setLevel(logging.ERROR)  # it logs each try; the final error is raised
    client: ServiceBusClient | None = None
    try:
        client = ServiceBusClient.from_connection_string(url, retry_total=retries, retry_backoff_factor=0.2)
        yield client
    except PenstockError:
        raise
    except (AzureError, OSError, ValueError) as error:  # ValueError: a malformed string, or a client that is closed
        said = mask(str(error)) or type(error).__name__
        raise BrokerAway(
            f"Service Bus cannot be used for {who}: {said}. Check that the url is a connection string of it, and that "
            "the queue is there."
        ) from error
    finally:
        if client is not None:
            with contextlib.suppress(AzureError, OSError, ValueError):
                async with asyncio.timeout(CLOSE):
                    await client.close()


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


class _Publisher(ABC):
    """Keeps a connection open between messages; after a failure the next message opens another one."""

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
                await stack.__aexit__(type(error), error, error.__traceback__)  # which words the error
                raise

    async def close(self) -> None:
        async with self._turn:
            if self._open is not None:
                await self._open.aclose()
                self._open = None


class RabbitBus(_Publisher):
    """A queue whose messages expire."""

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
                    async with asyncio.timeout(CHECK_EVERY):
                        await gone.wait()
                except TimeoutError:
                    async with asyncio.timeout(CALL):
                        await channel.declare_queue(self._queue, passive=True)
            raise ConnectionError("the broker has closed the channel")

    async def _declare(self, channel: "AbstractChannel") -> "AbstractQueue":
        forgets: dict[str, Any] = {"x-message-ttl": int(USEFUL.total_seconds() * 1000), "x-max-length": MOST}
        return await channel.declare_queue(self._queue, durable=True, arguments=forgets)


class ServiceBusBus(_Publisher):
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
                # One by one: for several the library waits another 0.2 s.
                async with asyncio.timeout(CHECK_EVERY + CALL):
                    came = await receiver.receive_messages(max_message_count=1, max_wait_time=CHECK_EVERY)
                for message in came:
                    heard(b"".join(message.body))
                    async with asyncio.timeout(CALL):
                        await receiver.complete_message(message)


class Trigger:
    """Publishes accepted documents on the bus, and wakes this process's worker. One for each process with a bus."""

    def __init__(self, app: Penstock, queue: str) -> None:
        self._app = app
        self._bus: Bus = open_bus(app.settings.bus)
        self._pending: deque[bytes] = deque(maxlen=PENDING)
        self._publishing: asyncio.Task[None] | None = None
        self._quiet_until = 0.0
        self._call = app.job(queue=queue, timeout="1m", retries=TRIES)(self.publish_trigger)

    # -- publishing------------------------------------------------------------------------------------------------------

    async def note(self, tx: Session, collection: str, document: int, kind: str, fairness_key: str) -> None:
        """Note a document that is accepted in this transaction."""
        await self._app.enqueue(
            self._call(collection=collection, document=document, kind=kind), fairness_key=fairness_key, tx=tx
        )
        self._pending.append(_encode(collection, document, kind))

    def committed(self) -> None:
        """Publish what was noted: a transaction that was rolled back costs a claim without a job."""
        if self._pending and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish_pending(), name="bus")

    async def _publish_pending(self) -> None:
        while self._pending:
            body = self._pending.popleft()
            if time.monotonic() < self._quiet_until:
                continue
            try:
                await self._bus.publish(body)
            except (BrokerAway, TimeoutError) as error:
                self._quiet_until = time.monotonic() + REST
                log.warning("the bus is away: workers find documents by themselves", error=str(error))

    async def publish_trigger(self, ctx: Context, collection: str, document: int, kind: str) -> str:
        """Publish a document, if it still waits for a worker; dropped after a few tries, because workers poll as well."""
        queued = await self._app.database.pool.repeat(sql.is_queued.value, document=document)
        if not queued:
            return "not needed"
        try:
            await self._bus.publish(_encode(collection, document, kind))
        except (BrokerAway, TimeoutError) as error:
            if ctx.job.failures + 1 < TRIES:
                raise Transient(str(error)) from error
            return f"not published: {error}"
        return "published"

    # -- listening-------------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Wake this process's worker for each document that is published, until cancelled."""
        rest = FIRST_REST
        while True:
            began = time.monotonic()
            try:
                await self._bus.listen(self._heard)
            except (PenstockError, TimeoutError) as error:
                log.warning("the bus cannot be read: workers find documents by polling", error=str(error))
            if time.monotonic() - began > LONGEST_REST:
                rest = FIRST_REST
            await asyncio.sleep(rest)
            rest = min(2 * rest, LONGEST_REST)

    def _heard(self, body: bytes) -> None:
        try:
            kind = self._app.kinds[json.loads(body)["kind"]]
        except (ValueError, KeyError, TypeError, RecursionError):  # of another program, or of a newer Penstock
            log.warning("a message of the bus is unknown", body=repr(body[:200]))
            return
        self._app.database.notifications.wake(f"penstock_queue_{kind.queue}")

    async def close(self) -> None:
        """Publish what is pending, and close."""
        if self._publishing is not None:
            await asyncio.gather(self._publishing, return_exceptions=True)
        await self._bus.close()


def _encode(collection: str, document: int, kind: str) -> bytes:
    return json.dumps({"collection": collection, "document": document, "kind": kind}).encode()
