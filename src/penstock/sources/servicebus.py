"""Azure Service Bus as a source: a message is completed when the transaction that keeps it has been committed, and not before.

Messages come locked for a time, and in batches that are over long before it ends. When a lock is lost, or the connection, or
this process ends in between, what was not completed comes again and is a repeat. What cannot be used goes to the queue's own
dead letters after it is kept here with its reason. While the inbox is full nothing is received.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import PenstockError
from penstock.pipelines import need_azure, service_bus
from penstock.sources.broker_intake import BATCH_BYTES, Arrival, BatchOutcome, batches, poisoned, read_message, take
from penstock.sources.source import MessageOutcome, Source, SourceCheck, SourceContext, summarise
from penstock.telemetry import log

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage
    from azure.servicebus.aio import ServiceBusReceiver

T = TypeVar("T")

CALL = 30.0  # seconds for one answer of the broker, with the library's own tries
WAIT = 2.0  # seconds that it is waited for a first message
PATIENCE = 15.0  # seconds that a batch may wait for our database; a lock lasts for a minute, or what the queue says
SETTLING = 50  # messages that are settled at the same time: each waits for the broker's answer
PEEKED = 100  # messages that a check reads
REASON_MAX = 4096  # characters of a reason, which is a property of the dead letter


def open_source(context: SourceContext) -> Source:
    need_azure(f"the source {context.name}")
    return BusSource(context)


class BusSource:
    """One queue. A message is in the inbox before it is completed."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._chosen = context.chosen
        self._mean = 1024.0  # bytes of a message, of late

    async def run(self) -> None:
        assert self._chosen.url is not None  # noqa: S101  the settings see to it
        await self._context.position()  # its row, in which trouble is noted
        url, queue = self._chosen.url.get_secret_value(), self._chosen.queue or ""
        # The library's own retries are off: after a lost connection they open another one for each message that is being
        # settled and close those of the others, and a call that waits on a closed one blocks the event loop for a minute.
        async with (
            service_bus(url, f"the source {self._context.name}", retries=0) as client,
            client.get_queue_receiver(queue) as receiver,
        ):
            while True:
                await self._bring(receiver)

    async def check(self) -> SourceCheck:
        """Peek at the messages of the queue, which neither locks nor removes them."""
        assert self._chosen.url is not None  # noqa: S101  the settings see to it
        url, queue = self._chosen.url.get_secret_value(), self._chosen.queue or ""
        async with (
            service_bus(url, f"source {self._context.name}") as client,
            client.get_queue_receiver(queue) as receiver,
        ):
            peeked = await receiver.peek_messages(max_message_count=PEEKED)
        news = await self._context.news([self._read(each).message for each in peeked])
        return summarise(news, more=len(peeked) == PEEKED)

    async def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Outcomes are not reported to a queue."""

    async def close(self) -> None:
        """Nothing is open outside of `run`."""

    async def _bring(self, receiver: "ServiceBusReceiver") -> None:
        """One batch, or a rest while the inbox is full."""
        room = await self._context.room()
        if room == 0:
            await asyncio.sleep(self._chosen.poll_every.total_seconds())
            return
        most = max(1, min(self._chosen.batch, self._chosen.prefetch, room, int(BATCH_BYTES / self._mean)))
        async with asyncio.timeout(CALL + WAIT):
            came = await receiver.receive_messages(max_message_count=most, max_wait_time=WAIT)
        await self._context.answered()
        settled = 0
        for batch in batches([self._read(each) for each in came]):
            try:
                taken = await take(self._context, batch, patience=PATIENCE)
            except PenstockError:  # the fault is on this side: other workers may have them at once
                await self._requeue(receiver, came[settled:])
                raise
            await self._settle(receiver, taken)
            settled += len(batch)

    async def _settle(self, receiver: "ServiceBusReceiver", taken: "BatchOutcome[ServiceBusReceivedMessage]") -> None:
        async def refuse(refused: "tuple[ServiceBusReceivedMessage, str]") -> None:
            message, reason = refused
            await receiver.dead_letter_message(message, reason="Refused", error_description=reason[:REASON_MAX])

        await _settle_all(receiver.complete_message, taken.good)
        await _settle_all(refuse, taken.refused)

    async def _requeue(self, receiver: "ServiceBusReceiver", messages: "Sequence[ServiceBusReceivedMessage]") -> None:
        from azure.core.exceptions import AzureError

        with contextlib.suppress(AzureError, OSError, ValueError):  # then their locks end by themselves
            await _settle_all(receiver.abandon_message, messages)

    def _read(self, delivery: "ServiceBusReceivedMessage") -> "Arrival[ServiceBusReceivedMessage]":
        message_id = "" if delivery.message_id is None else str(delivery.message_id)
        try:
            body = body_of(delivery)
        except TypeError as error:
            return Arrival(poisoned(repr(delivery.message).encode(), str(error), message_id), 1, delivery)
        self._mean += 0.02 * (len(body) - self._mean)
        return Arrival(read_message(self._chosen, body, message_id), len(body), delivery)


def body_of(delivery: "ServiceBusReceivedMessage") -> bytes:
    """The bytes of a message; text that came as a value of AMQP is text, too."""
    body: Any = delivery.body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes):
        return body
    parts = [] if isinstance(body, dict) or body is None else list(body)
    if not all(isinstance(part, bytes) for part in parts) or isinstance(body, dict):
        raise TypeError("The body of the message is an AMQP value, not bytes: send JSON as bytes or text.")
    return b"".join(parts)


async def _settle_all(settle: Callable[[T], Awaitable[None]], messages: Sequence[T]) -> None:
    """The first alone, which finds a connection that was lost meanwhile; then so many at once, until one of them fails."""
    for part in (messages[:1], *(messages[at : at + SETTLING] for at in range(1, len(messages), SETTLING))):
        try:
            async with asyncio.timeout(CALL), asyncio.TaskGroup() as group:
                for message in part:
                    group.create_task(_settle_one(settle, message))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


async def _settle_one(settle: Callable[[T], Awaitable[None]], message: T) -> None:
    """A lock that was lost is not our trouble: that message comes again."""
    from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

    try:
        await settle(message)
    except (MessageLockLostError, MessageAlreadySettled) as error:
        log.info("a lock was lost: the message comes again", error=str(error))
