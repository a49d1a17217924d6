"""The connection pool of a process: few connections, warm, counted, and never held while something slow goes on.

Handlers compute without a connection, so the size of the pool does not depend on how many of them run. To keep it so,
there is a *hold budget*: a transaction that keeps its connection for longer than `pool.hold_warning` without running a
statement is logged with the place that opened it, and with `pool.hold_limit` (set in tests) it is ended.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakSet

import asyncpg
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock import telemetry
from penstock.database.session import Session, session_settings
from penstock.database.tenancy import opening
from penstock.errors import ConnectionLost, DatabaseTrouble, DatabaseUnreachable, PoolExhausted
from penstock.settings import PoolSettings
from penstock.telemetry import log

P = ParamSpec("P")
T = TypeVar("T")
Connect = Callable[[], Awaitable[Session]]

wait_seconds = telemetry.histogram("penstock_pool_wait_seconds", "Seconds of waiting for a free connection")
hold_seconds = telemetry.histogram("penstock_pool_hold_seconds", "Seconds for which a connection was taken")
CONNECTIONS = telemetry.describe(
    "gauge",
    "penstock_pool_connections",
    "Connections of this process: size (the most), open, used, and callers waiting for one",
    ("state",),
)
crowded = telemetry.counter(
    "penstock_pool_crowded_total", "Uses that found all connections taken, and had to wait for one"
)
overholds = telemetry.counter("penstock_pool_overholds_total", "Transactions idle for longer than the hold budget")

MOMENT = 0.4  # seconds: less than between two heartbeats
RETURN_LIMIT = 1.0  # seconds for a rollback or a cancelled call to end; after that the connection is cut
MACHINERY = ("contextlib.py", "database/pool.py", "database/database.py")


@dataclass
class Hold:
    """One use of a connection: the place that took it, and since when."""

    place: str
    since: float
    transaction: bool = False
    reported: bool = False


@dataclass
class PoolState:
    """Counts for `doctor`, the metrics and the claim's back-pressure."""

    size: int
    open: int
    used: int
    waiting: int

    @property
    def use(self) -> float:
        return self.used / self.size


class PoolUse:
    """The part of a pool that was in use, as the mean of the last moment: a small pool is full now and then by chance."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._at, self._seconds = time.monotonic(), pool.used_seconds
        self._mean = 0.0

    def __call__(self) -> float:
        now, seconds = time.monotonic(), self._pool.used_seconds
        if now - self._at >= MOMENT:
            self._mean = (seconds - self._seconds) / (now - self._at) / self._pool.settings.size
            self._at, self._seconds = now, seconds
        return self._mean


class Connections(Collector):
    """The pools of this process, read when the metrics are."""

    def __init__(self) -> None:
        self.pools: WeakSet[Pool] = WeakSet()

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily(CONNECTIONS.name, CONNECTIONS.help, labels=CONNECTIONS.labels)
        states = [pool.state for pool in list(self.pools)]
        for name in ("size", "open", "used", "waiting"):
            gauge.add_metric((name,), sum(getattr(state, name) for state in states))
        return (gauge,)


connections = Connections()
telemetry.registry.register(connections)


class Pool:
    """At most `settings.size` sessions, of which `settings.warm` are opened in steps before they are needed."""

    def __init__(self, connect: Connect, settings: PoolSettings, *, pooled: bool = False) -> None:
        self.settings = settings
        self._holds: dict[Session, Hold] = {}
        self._used_seconds = 0.0  # of holds that are over
        self._waiting = 0
        self._local = (
            "; ".join(f"set local {name} = '{value}'" for name, value in session_settings(settings).items())
            if pooled
            else ""
        )
        self._local += ";" * pooled
        self.guarded = False  # whether the database has row-level security
        self._watch: asyncio.Task[None] | None = None

        async def open_session(*_: Any, **__: Any) -> Session:
            return await connect()

        self._pool = asyncpg.create_pool(
            min_size=0,
            max_size=settings.size,
            max_queries=1_000_000,
            max_inactive_connection_lifetime=300.0,
            connect=open_session,
            connection_class=Session,
            reset=_no_reset,
        )

    async def open(self) -> None:
        """Warm, and in steps: a server that just came up is not met by all connections at once."""
        await self._pool
        remaining = self.settings.warm
        warmed: list[Any] = []
        try:
            while remaining > 0:
                step = min(self.settings.step, remaining)
                warmed += await asyncio.gather(*(self._pool.acquire() for _ in range(step)))
                remaining -= step
        finally:
            for session in warmed:
                await self._pool.release(session)
        self._watch = asyncio.create_task(self._watch_holds(), name="hold-watch")
        connections.pools.add(self)

    async def close(self) -> None:
        """Take back what is idle and cut what is not: a frozen server cannot keep us from leaving."""
        connections.pools.discard(self)
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        try:
            async with asyncio.timeout(2):
                await self._pool.close()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._pool.terminate()

    @property
    def state(self) -> PoolState:
        return PoolState(self.settings.size, self._pool.get_size(), len(self._holds), self._waiting)

    @property
    def used_seconds(self) -> float:
        """How long connections were held since the start, all together; including those that are held now."""
        now = time.monotonic()
        return self._used_seconds + sum(now - hold.since for hold in list(self._holds.values()))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection for single statements, each with its own deadline.

        Behind a pooler it is a transaction: otherwise a statement could be prepared on one server and run on another. And in
        the name of a tenant, whose name belongs to a transaction.
        """
        async with self.transaction() if self._local or self._guard() else self._taken() as session:
            yield session

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """One short transaction: committed when the block ends, rolled back when it raises."""
        async with self._taken() as session:
            work = session.transaction()
            session.opening = self._local + self._guard()
            await work.start()
            self._begin_watching(session)
            try:
                yield session
            except BaseException:
                await _roll_back(session, work)
                raise
            try:
                await work.commit()
            except asyncpg.InterfaceError as error:  # the driver knew before the COMMIT that the connection is gone
                if not session.is_closed():
                    raise
                raise session.lost(error) from error

    def _guard(self) -> str:
        return opening() if self.guarded else ""

    async def repeat(
        self, work: Callable[Concatenate[Session, P], Awaitable[T]], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a read or an idempotent write, again if its connection is lost, until the deadline of one call."""
        deadline = time.monotonic() + self.settings.call_timeout.total_seconds()
        pause = 0.05
        while True:
            try:
                async with self.session() as session:
                    return await work(session, *args, **options)
            except (ConnectionLost, DatabaseUnreachable):
                if time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  jitter, not a secret
            pause = min(2 * pause, 1.0)

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[Session]:
        began = time.monotonic()
        if len(self._holds) >= self.settings.size:
            crowded.inc()
        self._waiting += 1
        try:
            proxy = await self._pool.acquire(timeout=self.settings.acquire_timeout.total_seconds())
        except TimeoutError as error:
            raise PoolExhausted(
                f"All {self.settings.size} connections were in use: hold them for a shorter time, or raise pool.size."
            ) from error
        finally:
            self._waiting -= 1
        # The proxy forwards every call; its session is the shorter way.
        session: Session = proxy._con  # type: ignore[attr-defined]
        hold = self._holds[session] = Hold(_caller(), time.monotonic())
        wait_seconds.observe(hold.since - began)
        try:
            yield session
        finally:
            session.on_work = None
            del self._holds[session]
            held = time.monotonic() - hold.since
            self._used_seconds += held
            hold_seconds.observe(held)
            await self._give_back(proxy, session)

    async def _give_back(self, proxy: Any, session: Session) -> None:
        """Bounded, because a call that was cancelled on a frozen server never ends; then the connection is cut."""
        try:
            await self._pool.release(proxy, timeout=RETURN_LIMIT)
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            session.terminate()

    # -- the hold budget ------------------------------------------------------------------------------------------

    def _begin_watching(self, session: Session) -> None:
        session.overheld = False
        self._holds[session].transaction = True
        session.on_work = lambda: self._note_pause(session)

    def _note_pause(self, session: Session) -> None:
        """Called before each statement of a transaction and now and then in between."""
        hold, pause = self._holds[session], time.monotonic() - session.idle_since
        if pause > self.settings.hold_warning.total_seconds() and not hold.reported:
            hold.reported = True
            overholds.inc()
            log.warning("connection held idle in a transaction", seconds=round(pause, 3), place=hold.place)
        limit = self.settings.hold_limit
        if limit is not None and pause > limit.total_seconds():
            session.overheld = True
            session.terminate()

    async def _watch_holds(self) -> None:
        while True:
            await asyncio.sleep(self.settings.hold_warning.total_seconds())
            for session, hold in list(self._holds.items()):
                if hold.transaction:
                    self._note_pause(session)


async def _no_reset(_: Any) -> None:
    """asyncpg would send a reset after each use; our sessions set nothing, and locks live on sessions of their own."""


async def _roll_back(session: Session, work: Any) -> None:
    """Roll back; cut the connection when that takes too long."""
    if session.is_closed():
        return
    try:
        async with asyncio.timeout(RETURN_LIMIT):
            await work.rollback()
    except (TimeoutError, DatabaseTrouble, asyncpg.PostgresError, asyncpg.InterfaceError):
        session.terminate()


def _caller() -> str:
    """The place that took the connection: the first one outside of the machinery."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(MACHINERY):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
