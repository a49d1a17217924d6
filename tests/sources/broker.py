"""A small broker of AMQP 1.0 that the library of Azure Service Bus takes for the real one. Run by a Python that has proton:

    python broker.py PORT FILE [LOCK_SECONDS]

It does what our code needs of Service Bus: `$cbs`, sending (single and in batches), peek-lock, complete, abandon, dead letters
with a reason, locks that end, and the management requests for peeking, settling and renewing. Messages are in FILE, so that a
killed broker has them again. Unlike the real one it frees the locks of a receiver that is gone at once.
"""

import sqlite3
import struct
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from proton import Condition, Delivery, Endpoint, Message, symbol, timestamp  # type: ignore[import-not-found]
from proton.handlers import IncomingMessageHandler, MessagingHandler  # type: ignore[import-not-found]
from proton.reactor import Container  # type: ignore[import-not-found]

MOST_DELIVERIES = 10
LARGEST = 128 * 2**20
DEAD = "/$deadletterqueue"
LOCK_LOST = "com.microsoft:message-lock-lost"


class Kept:
    """The messages of all queues, in a file."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(
            "pragma journal_mode = wal; pragma synchronous = off;"  # we are killed, the machine is not
            "create table if not exists messages (seq integer primary key, queue text, body blob, count int default 0)"
        )

    def add(self, queue: str, message: Any) -> None:
        self._db.execute("insert into messages (queue, body) values (?, ?)", (queue, message.encode()))

    def first(self, queue: str, locked: set[int]) -> tuple[int, bytes, int] | None:
        for row in self._db.execute("select seq, body, count from messages where queue = ? order by seq", (queue,)):
            if row[0] not in locked:
                found: tuple[int, bytes, int] = row
                return found
        return None

    def some(self, queue: str, after: int, most: int) -> list[tuple[int, bytes]]:
        wanted = "select seq, body from messages where queue = ? and seq >= ? order by seq limit ?"
        return list(self._db.execute(wanted, (queue, after, most)))

    def remove(self, seq: int) -> None:
        self._db.execute("delete from messages where seq = ?", (seq,))

    def move(self, seq: int, queue: str, message: Any) -> None:
        self._db.execute("update messages set queue = ?, body = ? where seq = ?", (queue, message.encode(), seq))

    def failed(self, seq: int) -> None:
        self._db.execute("update messages set count = count + 1 where seq = ?", (seq,))


@dataclass
class Lock:
    """A message in the hands of a receiver."""

    seq: int
    queue: str
    message: Any
    count: int
    link: Any
    until: float


@dataclass
class Queue:
    """Who waits for messages of a queue."""

    receivers: list[Any] = field(default_factory=list)
    locked: set[int] = field(default_factory=set)


class Broker(MessagingHandler):  # type: ignore[misc]
    """All queues; one that is named is there."""

    handlers: list[Any]

    def __init__(self, port: int, kept: Kept, lock_seconds: float) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        # Ours looks at the bytes of a delivery itself: a batch is one message with several bodies.
        self.handlers = [each for each in self.handlers if not isinstance(each, IncomingMessageHandler)]
        self._url = f"127.0.0.1:{port}"
        self._kept = kept
        self._lock_seconds = lock_seconds
        self._queues: dict[str, Queue] = {}
        self._replies: dict[tuple[Any, str], Any] = {}
        self._locks: dict[uuid.UUID, Lock] = {}

    def on_start(self, event: Any) -> None:
        self._container = event.container
        event.container.listen(self._url)
        event.container.schedule(0.2, self)

    def on_timer_task(self, event: Any) -> None:
        """Locks that have ended."""
        now = time.time()
        for token in [token for token, lock in self._locks.items() if lock.until < now]:
            self._free(token)
        self._pump()
        event.container.schedule(0.2, self)

    # -- links ----------------------------------------------------------------------------------------------------------

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.max_message_size = LARGEST
        if link.is_receiver:
            link.flow(1000)
            return
        address = _address(link.remote_source.address)
        if address == "$cbs" or address.endswith("$management"):
            self._replies[link.connection.remote_container, address] = link
        else:
            self._queue(address).receivers.append(link)

    def on_link_closing(self, event: Any) -> None:
        self._forget(lambda link: link == event.link)

    def on_disconnected(self, event: Any) -> None:
        self._forget(lambda link: link.connection == event.connection)

    def on_connection_closing(self, event: Any) -> None:
        self._forget(lambda link: link.connection == event.connection)

    def _forget(self, is_gone: Any) -> None:
        for queue in self._queues.values():
            queue.receivers = [link for link in queue.receivers if not is_gone(link)]
        for token in [token for token, lock in self._locks.items() if is_gone(lock.link)]:
            self._free(token)
        self._pump()

    # -- in -------------------------------------------------------------------------------------------------------------

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if delivery.link.is_receiver:
            if delivery.readable and not delivery.partial:
                raw = delivery.link.recv(delivery.pending)
                delivery.link.advance()
                delivery.link.flow(1)
                self._receive(delivery, raw)
        elif delivery.updated and delivery.remote_state:
            self._settled(delivery)

    def _receive(self, delivery: Any, raw: bytes) -> None:
        address = _address(delivery.link.remote_target.address)
        message = Message()
        message.decode(raw)
        if address == "$cbs":
            self._answer(delivery, address, message, {"status-code": 202, "status-description": "Accepted"}, None)
        elif address.endswith("$management"):
            self._manage(delivery, address, message)
        else:
            for one in unpacked(message, raw):
                self._kept.add(address, one)
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            self._pump()

    def _answer(self, delivery: Any, address: str, message: Any, properties: dict[str, Any], body: Any) -> None:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        reply = self._replies.get((delivery.link.connection.remote_container, address))
        if reply is not None:
            reply.send(Message(correlation_id=message.id, properties=properties, body=body))

    def _manage(self, delivery: Any, address: str, message: Any) -> None:
        good = {"statusCode": 200, "statusDescription": "OK"}
        tokens = [token for token in (message.body or {}).get("lock-tokens", ()) if token in self._locks]
        if not tokens:
            good = {"statusCode": 410, "statusDescription": "Gone", "errorCondition": symbol(LOCK_LOST)}
        match message.properties.get("operation"):
            case "com.microsoft:renew-lock":
                for token in tokens:
                    self._locks[token].until = time.time() + self._lock_seconds
                until = [timestamp(int(self._locks[token].until * 1000)) for token in tokens]
                self._answer(delivery, address, message, good, {"expirations": until})
            case "com.microsoft:update-disposition":
                status = message.body["disposition-status"]
                for token in tokens:
                    if status == "completed":
                        self._complete(token)
                    elif status == "suspended":
                        self._bury(token, {k: message.body.get(k) for k in ("deadletter-reason",)})
                    else:
                        self._free(token)
                self._answer(delivery, address, message, good, {})
                self._pump()
            case "com.microsoft:peek-message":
                wanted = message.body["from-sequence-number"], message.body["message-count"]
                queue = address.removesuffix("$management").strip("/")
                found = [{"message": raw} for _, raw in self._kept.some(queue, *wanted)]
                status = {"statusCode": 200 if found else 204, "statusDescription": "OK"}
                self._answer(delivery, address, message, status, {"messages": found})
            case _:
                self._answer(delivery, address, message, {"statusCode": 501, "statusDescription": "No"}, {})

    # -- out ------------------------------------------------------------------------------------------------------------

    def on_sendable(self, event: Any) -> None:
        self._pump()

    def _pump(self) -> None:
        """Send what waits to who has asked, in turns."""
        for name, queue in self._queues.items():
            while True:
                open_links = [
                    link for link in queue.receivers if link.credit > 0 and link.state & Endpoint.REMOTE_ACTIVE
                ]
                found = self._kept.first(name, queue.locked) if open_links else None
                if found is None:
                    break
                link = open_links[0]
                self._send(name, queue, link, *found)
                queue.receivers.remove(link)
                queue.receivers.append(link)

    def _send(self, name: str, queue: Queue, link: Any, seq: int, raw: bytes, count: int) -> None:
        message = Message()
        message.decode(raw)
        message.delivery_count = count
        until = time.time() + self._lock_seconds
        message.annotations = {
            symbol("x-opt-sequence-number"): seq,
            symbol("x-opt-locked-until"): timestamp(int(until * 1000)),
            symbol("x-opt-enqueued-time"): timestamp(int(time.time() * 1000)),
        }
        tag = uuid.uuid4().hex[:16]  # its 16 bytes are the number of the lock
        queue.locked.add(seq)
        self._locks[uuid.UUID(bytes_le=tag.encode())] = Lock(seq, name, message, count, link, until)
        link.send(message, tag=tag)

    def _settled(self, delivery: Any) -> None:
        token = uuid.UUID(bytes_le=delivery.tag.encode())
        state = delivery.remote_state
        if token not in self._locks:
            delivery.local.condition = Condition(LOCK_LOST, "The lock is gone.")
            delivery.update(Delivery.REJECTED)
        else:
            if state == Delivery.ACCEPTED:
                self._complete(token)
            elif state == Delivery.REJECTED:
                condition = delivery.remote.condition
                self._bury(token, dict((condition.info if condition else None) or {}))
            else:  # released: it came while nobody received, and does not count
                self._free(token, counts=state != Delivery.RELEASED)
            delivery.update(state)
        delivery.settle()
        self._pump()

    def _complete(self, token: uuid.UUID) -> None:
        lock = self._locks.pop(token)
        self._queue(lock.queue).locked.discard(lock.seq)
        self._kept.remove(lock.seq)

    def _bury(self, token: uuid.UUID, why: dict[Any, Any]) -> None:
        lock = self._locks.pop(token)
        self._queue(lock.queue).locked.discard(lock.seq)
        lock.message.properties = {**(lock.message.properties or {}), **{str(key): why[key] for key in why}}
        self._kept.move(lock.seq, lock.queue + DEAD, lock.message)
        self._queue(lock.queue + DEAD)

    def _free(self, token: uuid.UUID, *, counts: bool = True) -> None:
        """Abandoned, or its lock has ended: the next delivery, or dead after too many."""
        lock = self._locks[token]
        if counts:
            self._kept.failed(lock.seq)
        if counts and lock.count + 1 >= MOST_DELIVERIES:
            self._bury(token, {"DeadLetterReason": "MaxDeliveryCountExceeded"})
            return
        del self._locks[token]
        self._queue(lock.queue).locked.discard(lock.seq)

    def _queue(self, name: str) -> Queue:
        return self._queues.setdefault(name, Queue())


def unpacked(message: Any, raw: bytes) -> list[Any]:
    """The messages of a batch, which are its bodies; any other message is itself."""
    body = bytes(message.body) if isinstance(message.body, bytes | memoryview) else b""
    if body[:2] not in {b"\x00\x53", b"\x00\x80"}:
        return [message]
    found, place = [], 0
    while (place := raw.find(b"\x00\x53\x75", place)) >= 0:
        place += 3
        short = raw[place] == 0xA0
        size, head = (raw[place + 1], 2) if short else (struct.unpack(">I", raw[place + 1 : place + 5])[0], 5)
        one = Message()
        one.decode(raw[place + head : place + head + size])
        found.append(one)
        place += head + size
    return found


def _address(address: str | None) -> str:
    path = (address or "").split("://")[-1]
    return (path.split("/", 1)[-1] if "://" in (address or "") else path).strip("/").lower()


if __name__ == "__main__":
    Container(Broker(int(sys.argv[1]), Kept(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 60.0)).run()
