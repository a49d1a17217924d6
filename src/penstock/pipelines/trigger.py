"""The bus as a trigger: who accepts a document says so on the bus, and workers that wait on it look at once.

The queue in PostgreSQL stays the truth. What travels on the bus is a reason to look and nothing else: lost, doubled or late it
changes nothing. It is published by whoever has accepted the document, right after the commit, and by a job that was written
with the document; that one finds the document taken already, mostly, and has nothing to do. With the bus down all goes on: a
worker hears of documents by notifications, and without these it looks four times a second.
"""

import asyncio
import json
import time
from collections import deque
from functools import partial

from penstock.database import Session, statements
from penstock.engine import Context, Penstock
from penstock.errors import PenstockError, Transient
from penstock.pipelines.brokers import BrokerAway
from penstock.pipelines.bus import Bus, open_bus
from penstock.telemetry import log

sql = statements(__file__)

TRIES = 3  # of the job; by then nobody needs it
REST = 5.0  # seconds after a failure in which nothing is published right after a commit
FIRST_REST, LONGEST_REST = 1.0, 30.0  # seconds between attempts to listen
PENDING = 1000  # that are published right after their commit; others by their jobs


class Trigger:
    """Says and hears that documents were accepted. One for each process, if the bus is not off."""

    def __init__(self, app: Penstock, queue: str) -> None:
        self._app = app
        self._bus: Bus = open_bus(app.settings.bus)
        self._pending: deque[bytes] = deque(maxlen=PENDING)
        self._publishing: asyncio.Task[None] | None = None
        self._quiet_until = 0.0
        self._call = app.job(queue=queue, timeout="1m", retries=TRIES)(self.publish_trigger)

    # -- saying ---------------------------------------------------------------------------------------------------------

    async def note(self, tx: Session, collection: str, document: int, kind: str, share: str) -> None:
        """A document is being accepted in this transaction."""
        await self._app.enqueue(self._call(collection=collection, document=document, kind=kind), share=share, tx=tx)
        self._pending.append(_encode(collection, document, kind))

    def committed(self) -> None:
        """What was noted may be told: a transaction that was rolled back costs a look in vain."""
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
        """Tell workers of a document, if it still waits for one; given up after a few tries, which harms nobody."""
        queued = await self._app.database.pool.repeat(partial(sql.is_queued.value, document=document))
        if not queued:
            return "not needed"
        try:
            await self._bus.publish(_encode(collection, document, kind))
        except (BrokerAway, TimeoutError) as error:
            if ctx.job.failures + 1 < TRIES:
                raise Transient(str(error)) from error
            return f"given up: {error}"
        return "published"

    # -- hearing --------------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Wake this process's worker for each document that the bus tells of, until cancelled."""
        rest = FIRST_REST
        while True:
            began = time.monotonic()
            try:
                await self._bus.listen(self._heard)
            except (PenstockError, TimeoutError) as error:
                log.warning("the bus cannot be heard: documents are found by looking", error=str(error))
            if time.monotonic() - began > LONGEST_REST:
                rest = FIRST_REST
            await asyncio.sleep(rest)
            rest = min(2 * rest, LONGEST_REST)

    def _heard(self, body: bytes) -> None:
        try:
            kind = self._app.kinds[json.loads(body)["kind"]]
        except (ValueError, KeyError, TypeError, RecursionError):  # of somebody else, or of a newer Penstock
            log.warning("the bus said something that nobody here knows", body=repr(body[:200]))
            return
        self._app.database.notifications.wake(f"penstock_queue_{kind.queue}")

    async def close(self) -> None:
        """Say what is pending, and leave."""
        if self._publishing is not None:
            await asyncio.gather(self._publishing, return_exceptions=True)
        await self._bus.close()


def _encode(collection: str, document: int, kind: str) -> bytes:
    return json.dumps({"collection": collection, "document": document, "kind": kind}).encode()
