"""The connection budget: how many connections the fleet may open, and whether one more worker fits.

A worker registers before it works, in one transaction under a lock: it adds up what the registered workers may open at
most, what others have open now, and the limits of the server, the role and the database. What does not fit now waits
until a worker leaves, as in a rolling deploy; what can never fit is refused with the largest setting that does. So two
workers that start at the same time never both take the last room, and a fleet never fills its server by itself.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from penstock.database import Database, Session, process_mark, statements
from penstock.engine.fleet import Registration, register
from penstock.engine.maintenance import declare_gone
from penstock.errors import BudgetExceeded
from penstock.telemetry import log
from penstock.text import counted

sql = statements(__file__)

OWN_SESSIONS = ("heartbeat", "claim", "listen", "lanes")  # the session "lanes" lives for a moment only, one at a time
CLOSING = 1  # a session that was cut is the server's for a moment longer than it is ours
TRY_EVERY = 1.0  # seconds between tries while waiting
LOG_EVERY = 30.0
CROWD_PATIENCE = 30.0  # seconds, at least, to wait for others that wait
UNKNOWN = "what the pooler opens at the server: its default_pool_size for each database and user, and its own limits"
SURE_AFTER = 2  # tries in a row: a crowd of a second is not a reason to give up


def connections_needed(pool_size: int, *, pooled: bool) -> int:
    """The most connections that a worker process opens at the server.

    The pool, each session of its own, and one that is about to close. Behind a pooler the pool's are the pooler's, and
    only those that go past it are counted.
    """
    return (0 if pooled else pool_size) + len(OWN_SESSIONS) + CLOSING


@dataclass(frozen=True)
class ConnectionLimit:
    """A number of connections that the server does not exceed."""

    name: str
    size: int
    others: int  # open now, and not of a registered worker
    staying: int  # those among them that will not go because a worker stops


@dataclass(frozen=True)
class ConnectionBudget:
    """The limits of the server, the connections that are promised, and those that a worker needs."""

    need: int
    limits: tuple[ConnectionLimit, ...]
    allowances: tuple[tuple[str, int], ...]  # of each registered worker
    pooled: bool = False

    @property
    def promised(self) -> int:
        return sum(connections for _, connections in self.allowances)

    @property
    def tightest(self) -> ConnectionLimit:
        """The limit that leaves the least."""
        return min(self.limits, key=lambda limit: limit.size - limit.others)

    @property
    def free(self) -> int:
        return self.tightest.size - self.tightest.others - self.promised

    @property
    def fits(self) -> bool:
        return self.need <= self.free

    @property
    def alone(self) -> int:
        """The connections that a worker could have if there were no other."""
        return min(limit.size - limit.staying for limit in self.limits)

    @property
    def possible(self) -> bool:
        return self.need <= self.alone

    @property
    def crowded(self) -> bool:
        """Only processes of ours that have not registered are in the way: others that wait, or that only enqueue."""
        return not self.fits and self.need <= self.alone - self.promised

    @property
    def largest_pool(self) -> int:
        """The largest pool.size with which a worker fits alone; below 1, none does."""
        return self.alone - connections_needed(0, pooled=self.pooled)

    @property
    def shortage(self) -> str:
        """The sentence for a worker that does not fit now, with the fix."""
        limit = self.tightest
        return (
            f"{self.need} are needed, but {max(0, self.free)} are left: {limit.name} is {limit.size}, "
            f"{counted(len(self.allowances), 'worker')} may open {self.promised}, and others have {limit.others} open. "
            f"Stop a worker, lower pool.size, or raise the limit."
        )

    @property
    def refusal(self) -> str:
        """The sentence for a worker that will never fit, with the largest setting that does."""
        limit = min(self.limits, key=lambda limit: limit.size - limit.staying)
        said = (
            f"A worker needs {self.need} connections, and can never have them: {limit.name} is {limit.size}, of which "
            f"others use {limit.staying}"
        )
        if self.largest_pool >= 1 and not self.pooled:
            return f"{said}. Set pool.size to {self.largest_pool} or less, or raise the limit."
        return f"{said}, and no pool.size is small enough. Raise the limit, or end other programs."

    @property
    def crowd(self) -> str:
        """The sentence for a wait that cannot succeed: the processes that wait hold the connections that they wait for."""
        limit = self.tightest
        return (
            f"A worker needs {self.need} connections, but {limit.others - limit.staying} are held by processes of Penstock "
            f"that have not registered: others that wait like this one, or that only enqueue. Start fewer of them, lower "
            f"pool.size, or raise the limit ({limit.name} is {limit.size})."
        )


async def read_budget(session: Session, need: int, *, pooled: bool = False) -> ConnectionBudget:
    """The budget as it is now; the sessions of this process count as its need, not as others'."""
    limits = tuple(ConnectionLimit(**row) for row in await sql.limits(session, mark=process_mark()))
    allowances = tuple((row["name"], row["connections"]) for row in await sql.allowances(session))
    return ConnectionBudget(need, limits, allowances, pooled)


class JoinPatience:
    """The patience of a worker that does not fit: how long it waits, and how often it logs that."""

    def __init__(self) -> None:
        self._impossible = 0  # tries in a row
        self._logged_at = float("-inf")
        self._crowded_since: float | None = None
        self._with_a_crowd = CROWD_PATIENCE * random.uniform(1, 2)  # noqa: S311  so that not all leave at the same time

    def judge(self, budget: ConnectionBudget) -> None:
        """Raise what makes waiting useless."""
        now = time.monotonic()
        self._impossible = 0 if budget.possible else self._impossible + 1
        if self._impossible >= SURE_AFTER:
            raise BudgetExceeded(budget.refusal)
        self._crowded_since = (self._crowded_since or now) if budget.crowded else None
        if self._crowded_since is not None and now - self._crowded_since > self._with_a_crowd:
            raise BudgetExceeded(budget.crowd)
        if not self._impossible:
            self.log_shortage(budget)

    def log_shortage(self, budget: ConnectionBudget) -> None:
        """Log at once, and then now and then."""
        if time.monotonic() - self._logged_at > LOG_EVERY:
            self._logged_at = time.monotonic()
            log.warning("waiting for connections", need=budget.need, free=budget.free, reason=budget.shortage)


async def join_fleet(
    database: Database, member: Registration, stop: asyncio.Event, *, again: bool = False
) -> int | None:
    """Register when there is room for our connections; None when stopped before there was.

    One that has worked before (`again`) was declared gone and comes back: it waits, whatever others have done meanwhile.
    """
    pooled = database.endpoint.address.pooled
    member = replace(member, connections=connections_needed(database.settings.pool.size, pooled=pooled))
    if pooled and not again:
        log.info(
            "behind a pooler: only the connections past it are counted", counted=member.connections, unknown=UNKNOWN
        )
    patience = JoinPatience()
    while not stop.is_set():
        worker_id, budget = await try_to_join(database, member)
        if worker_id is not None:
            return worker_id
        if budget is None:  # another worker has the lock for a moment
            await _pause(stop, TRY_EVERY / 10)
            continue
        if again:
            patience.log_shortage(budget)
        else:
            patience.judge(budget)
        await _pause(stop, TRY_EVERY)
    return None


async def try_to_join(database: Database, member: Registration) -> tuple[int | None, ConnectionBudget | None]:
    """Try once: our id, if there is room; else the budget, or nothing while another worker has the lock."""
    pooled = database.endpoint.address.pooled
    async with _own_transaction(database) as tx:
        if not await sql.try_budget_lock.value(tx):
            return None, None
        budget = await read_budget(tx, member.connections, pooled=pooled)
        if budget.fits:
            return await register(tx, member), budget
        # Without a running worker, nothing else would notice that those whose room we need have died.
        await declare_gone(tx)
        return None, budget


@asynccontextmanager
async def _own_transaction(database: Database) -> AsyncIterator[Session]:
    """The pool, which is open already when the server is full; with a pooler, a direct session of the counted role."""
    if not database.endpoint.address.pooled:
        async with database.pool.transaction() as tx:
            yield tx
        return
    session = await database.direct("join")
    try:
        async with session.transaction():
            yield session
    finally:
        session.terminate()


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
