"""Notifications: LISTEN and NOTIFY as asyncio events, and whether they arrive at all.

One session of its own LISTENs. When it is lost, it is opened again, and every waiting caller is woken once, because what
was sent meanwhile is gone. A pooler between us and the server swallows notifications without a word, so arrival is
*measured*: an echo is sent now and then through the ordinary way (the pool), and when it does not come back,
`arriving` is False and callers poll. A notification is only ever a reason to poll: no information travels in it.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from penstock import telemetry
from penstock.database.pool import Pool
from penstock.database.session import Session
from penstock.database.sql_files import statements
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log

sql = statements(__file__)

ECHO = "penstock_echo"
ECHO_EVERY = 20.0
ECHO_PATIENCE = 2.0
RECONNECT_MAX = 5.0

arriving_gauge = telemetry.gauge("penstock_notifications_arriving", "1 when an echo came back through LISTEN")
received = telemetry.counter("penstock_notifications_total", "Notifications received")


class Subscription:
    """A wait for one channel. `wait` returns True when woken and False when the time is over; poll in both cases."""

    def __init__(self, channel: str, owner: "Notifications", event: asyncio.Event | None = None) -> None:
        self.channel = channel
        self._owner = owner
        self._event = event or asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def close(self) -> None:
        self._owner.unsubscribe(self)


class Notifications:
    """The process's one listening session. Started with `start`, ended with `close`."""

    def __init__(
        self, connect: Callable[[], Awaitable[Session]], pool: Pool, *, echo_every: float = ECHO_EVERY
    ) -> None:
        self._connect = connect
        self._pool = pool
        self._echo_every = echo_every
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._changed = asyncio.Event()
        self._token = ""  # the mark of an echo, not a password  # nosec B105
        self._echoed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.arriving = False
        self.connected = asyncio.Event()

    def subscribe(self, channel: str, event: asyncio.Event | None = None) -> Subscription:
        """Wake the given event, which may serve several channels, or one of its own."""
        subscription = Subscription(channel, self, event)
        self._subscriptions.setdefault(channel, set()).add(subscription)
        self._changed.set()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.channel].discard(subscription)

    async def start(self) -> None:
        """Returns when it is known whether notifications arrive."""
        self._tasks = [asyncio.create_task(self._listen_for_ever(), name="listen")]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ECHO_PATIENCE):
                await self.connected.wait()
        await self.measure()
        self._tasks.append(asyncio.create_task(self._measure_for_ever(), name="echo"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def measure(self) -> bool:
        """Send an echo by the pool and see whether the listening session gets it."""
        self._echoed.clear()
        self._token = secrets.token_hex(8)
        arrived = False
        try:
            async with asyncio.timeout(ECHO_PATIENCE):
                async with self._pool.session() as session:
                    await sql.send.run(session, channel=ECHO, payload=self._token)
                await self._echoed.wait()
            arrived = True
        except (TimeoutError, DatabaseTrouble, DatabaseUnreachable):
            arrived = False
        if arrived != self.arriving:
            if arrived:
                log.debug("notifications arrive")
            else:
                log.warning("notifications do not arrive: polling instead")
        self.arriving = arrived
        arriving_gauge.set(arrived)
        return arrived

    async def _measure_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._echo_every)
            await self.measure()

    async def _listen_for_ever(self) -> None:
        pause = 0.1
        while True:
            session = None
            try:
                session = await self._connect()
                await self._listen(session)
            except (
                OSError,
                DatabaseTrouble,
                DatabaseUnreachable,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
            ) as error:
                pause = 0.1 if self.connected.is_set() else min(2 * pause, RECONNECT_MAX)
                log.debug("listening session lost", error=str(error), again_in=pause)
            finally:
                self.connected.clear()
                self.arriving = False
                if session is not None:
                    session.terminate()
            await asyncio.sleep(pause)

    async def _listen(self, session: Session) -> None:
        """Ends with an exception when the session is lost."""
        gone = asyncio.Event()
        session.add_termination_listener(lambda _: gone.set())
        listening: set[str] = set()
        while not gone.is_set():
            self._changed.clear()
            for channel in ({ECHO} | self._subscriptions.keys()) - listening:
                await session.add_listener(channel, self._receive)
                listening.add(channel)
            if not self.connected.is_set():
                self.connected.set()
                for channel in self._subscriptions:
                    self.wake(channel)
            await _first_of(gone, self._changed)
        raise OSError("the listening session was closed")

    def _receive(self, _connection: Any, _pid: int, channel: str, payload: Any) -> None:
        received.inc()
        if channel == ECHO:
            if payload == self._token:
                self._echoed.set()
            return
        self.wake(channel)

    def wake(self, channel: str) -> None:
        """Wake all subscriptions of the channel; also for callers that learned of an event in another way."""
        for subscription in self._subscriptions.get(channel, ()):
            subscription.wake()


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
