"""RabbitMQ as a source: a message is acknowledged when the transaction that keeps it has been committed, and not before.

Deliveries are gathered into batches. When the broker, the connection or this process ends in between, what was not acknowledged
comes again and is a repeat. What cannot be used is rejected to the dead-letter exchange after it is kept here with its reason.
While the inbox is full nothing is consumed: the messages wait at the broker.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.pipelines import CONNECT, need_aio_pika, rabbit
from penstock.sources.broker_intake import BATCH_BYTES, Arrival, BatchOutcome, batches, read_message, take
from penstock.sources.source import MessageOutcome, Source, SourceCheck, SourceContext
from penstock.telemetry import log

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue

CALL = 10.0  # seconds for one answer of the broker
LINGER = 0.005  # seconds for which the first of a batch waits for others
CHECK_EVERY = 1.0  # seconds between checks of the room that is left
PATIENCE = 600.0  # seconds that a batch may wait for our database; the broker's own limit is half an hour
AHEAD_BYTES = 4 * BATCH_BYTES  # of messages that the broker has sent ahead; it counts them, and we weigh them
# A restart of a worker is a delivery, too: newer brokers give up after 20, which a bad week can exceed.
DELIVERIES = 1_000_000


def open_source(context: SourceContext) -> Source:
    need_aio_pika(f"the source {context.name}")
    return RabbitSource(context)


class Deliveries:
    """Deliveries that wait to be taken; the end of the channel is the last one."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()

    async def add(self, message: "AbstractIncomingMessage") -> None:
        self._queue.put_nowait(message)

    def end(self, *_: object) -> None:
        self._queue.put_nowait(None)

    async def gather(self, most: int, within: float) -> "list[AbstractIncomingMessage]":
        """The next ones, in their order: none if none comes within so many seconds."""
        batch: list[AbstractIncomingMessage] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                batch.append(await self._next())
            async with asyncio.timeout(LINGER):
                while len(batch) < most:
                    batch.append(await self._next())
        return batch

    def rest(self) -> "list[AbstractIncomingMessage]":
        """Remove and return the deliveries that were not taken."""
        left = []
        while not self._queue.empty():
            message = self._queue.get_nowait()
            if message is None:  # the end of the channel takes all of it back
                self._queue.put_nowait(None)
                break
            left.append(message)
        return left

    async def _next(self) -> "AbstractIncomingMessage":
        message = await self._queue.get()
        if message is None:
            raise ConnectionError("the broker has closed the channel")
        return message


class RabbitSource:
    """One queue. A message is in the inbox before it is acknowledged."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._chosen = context.chosen
        self._dead = context.chosen.dead_letters or f"{context.name}.dead"
        self._mean = 1024.0  # bytes of a message, of late
        self._tag = ""  # of the consumer, while there is one
        self._settled = 0  # the last delivery of the channel before which all are settled

    async def run(self) -> None:
        assert self._chosen.url is not None  # noqa: S101  the settings see to it
        await self._context.position()  # its row, in which trouble is noted
        async with rabbit(self._chosen.url.get_secret_value(), f"the source {self._context.name}") as connection:
            channel, queue = await self._declare(connection)
            await self._context.answered()
            await self._consume(channel, queue)

    async def check(self) -> SourceCheck:
        """The number of messages that wait in the queue. Nothing is declared, and nothing is consumed."""
        from aiormq.exceptions import ChannelNotFoundEntity

        assert self._chosen.url is not None  # noqa: S101  the settings see to it
        name = self._chosen.queue or ""
        async with rabbit(self._chosen.url.get_secret_value(), f"source {self._context.name}") as connection:
            channel = await connection.channel(publisher_confirms=False)
            try:
                queue = await channel.declare_queue(name, passive=True)
            except ChannelNotFoundEntity:
                return SourceCheck(0, findings=[f"The queue {name} does not exist yet: a worker creates it."])
            return SourceCheck(queue.declaration_result.message_count or 0)

    async def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Outcomes are not reported to a queue."""

    async def close(self) -> None:
        """Nothing is open outside of `run`."""

    # -- the queue ------------------------------------------------------------------------------------------------------

    async def _declare(self, connection: "AbstractConnection") -> "tuple[AbstractChannel, AbstractQueue]":
        """Our queue with its dead letters; one that is there with other settings, or is not ours to make, is used as it is."""
        from aiormq.exceptions import ChannelAccessRefused, ChannelPreconditionFailed

        name = self._chosen.queue or ""
        try:
            async with asyncio.timeout(CONNECT):
                channel = await connection.channel(publisher_confirms=False)
                await self._declare_dead(channel)
                return channel, await channel.declare_queue(
                    name,
                    durable=True,
                    arguments={
                        "x-queue-type": "quorum",
                        "x-dead-letter-exchange": self._dead,
                        "x-dead-letter-strategy": "at-least-once",  # else a restart may lose what was on its way
                        "x-overflow": "reject-publish",  # which that one asks for
                        "x-delivery-limit": DELIVERIES,
                    },
                )
        except (ChannelPreconditionFailed, ChannelAccessRefused) as error:
            log.warning(
                "a queue is used as it is: what cannot be used goes where its own dead-letter exchange says",
                source=self._context.name,
                queue=name,
                reason=str(error),
            )
        async with asyncio.timeout(CONNECT):
            channel = await connection.channel(publisher_confirms=False)
            return channel, await channel.declare_queue(name, passive=True)

    async def _declare_dead(self, channel: "AbstractChannel") -> None:
        exchange = await channel.declare_exchange(self._dead, "fanout", durable=True)
        letters = await channel.declare_queue(self._dead, durable=True, arguments={"x-queue-type": "quorum"})
        await letters.bind(exchange)

    # -- messages -------------------------------------------------------------------------------------------------------

    async def _consume(self, channel: "AbstractChannel", queue: "AbstractQueue") -> None:
        """Repeatedly check how much room there is, and consume until it is used up."""
        deliveries = Deliveries()
        channel.close_callbacks.add(deliveries.end)
        self._settled = 0
        while True:
            room = await self._wait_for_room(channel)
            ahead = self._ahead(room)
            async with asyncio.timeout(CALL):
                await channel.set_qos(prefetch_count=ahead)
                self._tag = await queue.consume(deliveries.add)
            while room > 0 and ahead // 2 < self._ahead(room) <= 2 * ahead:  # else the prefetch count changes
                room = await self._bring(channel, queue, deliveries, room)
            await self._stop_consuming(queue, deliveries)

    async def _bring(
        self, channel: "AbstractChannel", queue: "AbstractQueue", deliveries: Deliveries, room: int
    ) -> int:
        """What comes in about a second; how much room is left then."""
        until = asyncio.get_running_loop().time() + CHECK_EVERY
        while room > 0 and (left := until - asyncio.get_running_loop().time()) > 0:
            came = await deliveries.gather(min(self._chosen.batch, room), left)
            for batch in batches([self._read(each) for each in came]):
                taken = await take(self._context, batch, patience=PATIENCE)  # committed: now the broker may hear of it
                room -= taken.new
                if room <= 0:  # first: for each that is acknowledged the broker would send another
                    await self._stop_consuming(queue, deliveries)
                async with asyncio.timeout(CALL):
                    await self._settle(batch, taken)
        await self._check_queue(channel)
        return min(room, await self._context.room())

    async def _stop_consuming(self, queue: "AbstractQueue", deliveries: Deliveries) -> None:
        """For each that was acknowledged the broker has sent another: what came beyond the room is requeued."""
        if self._tag:
            async with asyncio.timeout(CALL):
                await queue.cancel(self._tag)
            self._tag = ""
        async with asyncio.timeout(CALL):
            for delivery in deliveries.rest():
                await delivery.reject(requeue=True)

    async def _settle(
        self, batch: "Sequence[Arrival[AbstractIncomingMessage]]", taken: "BatchOutcome[AbstractIncomingMessage]"
    ) -> None:
        for delivery, _ in taken.refused:
            await delivery.reject(requeue=False)
        tags = sorted(each.delivery.delivery_tag or 0 for each in batch)
        # One acknowledgement means all deliveries up to it: only if none of those is still in our hands.
        complete = tags == list(range(self._settled + 1, self._settled + 1 + len(tags)))
        self._settled = tags[-1]
        if complete and taken.good:
            await max(taken.good, key=lambda delivery: delivery.delivery_tag or 0).ack(multiple=True)
            return
        for delivery in taken.good:
            await delivery.ack()

    async def _check_queue(self, channel: "AbstractChannel") -> None:
        """Detect a queue that was deleted, or a broker that is gone without closing the connection."""
        async with asyncio.timeout(CALL):
            await channel.declare_queue(self._chosen.queue or "", passive=True)
        await self._context.answered()

    async def _wait_for_room(self, channel: "AbstractChannel") -> int:
        while (room := await self._context.room()) == 0:
            await self._check_queue(channel)
            await asyncio.sleep(self._chosen.poll_every.total_seconds())
        return room

    def _read(self, delivery: "AbstractIncomingMessage") -> "Arrival[Any]":
        body = delivery.body
        self._mean += 0.02 * (len(body) - self._mean)
        message = read_message(self._chosen, body, delivery.message_id or "", delivery.content_encoding or "")
        return Arrival(message, len(body), delivery)

    def _ahead(self, room: int) -> int:
        """Messages that the broker may send ahead: few when they are large."""
        return max(1, min(self._chosen.prefetch, room, int(AHEAD_BYTES / self._mean)))
