"""The limiter: one limit in one worker, with the permits that it was granted, their holders, and the callers that wait.

Within the cap, the adaptive concurrency limit (AIMD with slow start) and the breaker (breaker.py) decide. The main loop takes
and gives back; the heartbeat's thread changes the cap and reads what is in use (exchange.py). A lock guards all of it. Callers
are served in the order in which they came; no connection is held while one waits or has a permit.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import NamedTuple

from asyncpg import Record

from penstock.engine.job import StopReason
from penstock.engine.kinds import is_count
from penstock.engine.limits.breaker import Breaker, News, Signal, read_signal
from penstock.engine.limits.declare import Limit
from penstock.errors import BadJob, RateLimited, Resting
from penstock.telemetry import mask
from penstock.text import span, storable

REMEMBERED = 0.85  # of the concurrency that was too high
POOL_BUSY, POOL_CALM = 0.8, 0.5  # use of the connection pool
PATIENCE = 5.0  # seconds that a caller waits for the dependency; for longer rests, its job is rescheduled
FAILED_MAX = 10_000  # jobs whose last failure is remembered


@dataclass
class AdaptiveLimit:
    """The number of calls that one worker may have under way at once. A pure rule; times are of any one clock."""

    value: float = 1.0
    threshold: float = inf
    halved_at: float = -inf

    def succeed(self, began: float, amount: int = 1, *, in_use: bool, most: int, pool_use: float) -> None:
        """Count a call that went well; it is evidence for more only if all of the concurrency was in use."""
        if not in_use or pool_use > POOL_CALM or self.value >= most:
            return
        if self.value < self.threshold:
            self.value = min(self.value + amount, max(self.value, self.threshold), most)
        elif began >= self.halved_at:
            self.value = min(self.value + amount / self.value, most)

    def shrink(self, began: float, now: float, most: int) -> None:
        """Lower the concurrency, once for all calls that were under way."""
        if began < self.halved_at:
            return
        value = min(self.value, max(most, 1))
        self.threshold = max(1.0, REMEMBERED * value)
        self.value = max(1.0, value / 2)
        self.halved_at = now

    def feel_pool(self, use: float, now: float, most: int) -> None:
        """Lower the concurrency while our own connection pool is full; called with each heartbeat."""
        if use > POOL_BUSY:
            self.shrink(now, now, most)

    def restart(self, now: float) -> None:
        """Start again from 1 after an outage: how much load a server can take when it comes back is not known."""
        self.value, self.threshold, self.halved_at = 1.0, inf, now


@dataclass(slots=True, eq=False)
class Permit:
    limit: str
    amount: int
    began: float
    probing: bool = False


@dataclass(slots=True, eq=False)
class Waiter:
    amount: int
    permit: "asyncio.Future[Permit]"


class Ending(NamedTuple):
    """The end of a call, as evidence for the state of the dependency."""

    signal: Signal
    reason: str = ""
    rest: float = 0.0  # seconds of patience that it asked for


TOO_LONG = (StopReason.TIMEOUT, StopReason.STALL)
WENT_WELL = Ending(Signal.SUCCESS)
NOTHING_SAID = Ending(Signal.NOTHING)


@dataclass(frozen=True)
class Demand:
    """A worker's use of a limit, as the others read it."""

    worker_id: int
    used: int
    waiting: int  # callers, and one for lanes that are closed for lack of permits
    need: int  # the most that one caller takes at once


class Limiter:
    """One limit in one worker. The lock guards all of it: the heartbeat's thread changes what the main loop reads."""

    def __init__(self, limit: Limit, need: int, pool_use: Callable[[], float]) -> None:
        self.limit = limit
        self.permits = limit.permits  # of the fleet, as last read
        self.cap = 0
        self.used = 0
        self.adaptive = AdaptiveLimit()
        self.breaker = Breaker(limit.breaker_after)
        self.short = False  # the claim found lanes closed for lack of this
        self.hurry: Callable[[], None] = lambda: None  # the heartbeat
        self.on_room: Callable[[], None] = lambda: None  # the claim
        self._need = need
        self._pool_use = pool_use
        self._written = 0  # granted, as the table has it
        self._rests_till = -inf  # the dependency asked for patience
        self._comes_back_at = -inf
        self._answered = 0  # calls that went well
        self._failed: dict[int, int] = {}  # by job: how many calls had gone well when it found the dependency away
        self._queue: deque[Waiter] = deque()
        self._lock = threading.Lock()

    # -- the main loop --------------------------------------------------------------------------------------------

    async def take(self, amount: int) -> Permit:
        """Wait for a permit, first come, first served."""
        if not is_count(amount) or amount > self.permits:
            raise BadJob(f"Invalid number of permits of {self.limit.name}, {amount!r}: use 1 to {self.permits}.")
        now = time.monotonic()
        with self._lock:
            if (refusal := self._refusal(now)) is not None:
                raise refusal
            if not self._queue and self._fits(amount, now):
                return self._hand_out(amount, now)
            waiter = Waiter(amount, asyncio.get_running_loop().create_future())
            self._queue.append(waiter)
            starving = len(self._queue) == 1 and self.used + amount > self.cap
        try:
            if starving:
                self.hurry()
            self._come_back()
            return await waiter.permit
        except BaseException:
            self._withdraw(waiter)
            raise

    def reserve(self, amount: int) -> Permit | None:
        """A permit at once or none, for a job that is about to be claimed; callers in the queue go first."""
        now = time.monotonic()
        with self._lock:
            return self._hand_out(amount, now) if not self._queue and self._fits(amount, now) else None

    def has_room(self, amount: int) -> bool:
        with self._lock:
            return not self._queue and self._fits(amount, time.monotonic())

    def give_back(self, permit: Permit, ending: Ending, *, unused: bool = False) -> None:
        """End a call, with what it shows about the dependency."""
        now = time.monotonic()
        signal, reason, rest = ending
        with self._lock:
            in_use = 2 * self.used >= self.adaptive.value or bool(self._queue) or self.short
            self.used -= permit.amount
            if signal is Signal.SUCCESS:
                self._answered += 1
                self.adaptive.succeed(
                    permit.began, permit.amount, in_use=in_use, most=self.cap, pool_use=self._pool_use()
                )
            elif signal in (Signal.REFUSED, Signal.TIMEOUT):
                self.adaptive.shrink(permit.began, now, self.cap)
            self._rests_till = max(self._rests_till, now + rest)
            self.breaker.note(signal, permit.began, reason, probing=permit.probing)
            tell = self.breaker.news is not None or self._written > max(self.cap, self.used)
        if tell:  # another worker waits for what we do not use any more
            self.hurry()
        self.serve(silent=unused)  # the claim knows what it has not needed; woken by it, it would never rest

    def excuses(self, job_id: int) -> bool:
        """Note that a job found the dependency away; True if it has answered no call since that job's last failure."""
        with self._lock:
            before = self._failed.pop(job_id, self._answered)
            self._failed[job_id] = self._answered
            if len(self._failed) > FAILED_MAX:
                del self._failed[next(iter(self._failed))]
            return before == self._answered

    def serve(self, *, silent: bool = False) -> None:
        """Give permits to waiting callers, or refuse them; and wake the claim, if it waits for one."""
        now = time.monotonic()
        with self._lock:
            for waiter in self._queue:
                if (refusal := self._refusal(now)) is None:
                    break
                if not waiter.permit.done():
                    waiter.permit.set_exception(refusal)
            while self._queue and (self._queue[0].permit.done() or self._fits(self._queue[0].amount, now)):
                waiter = self._queue.popleft()
                if not waiter.permit.done():
                    waiter.permit.set_result(self._hand_out(waiter.amount, now))
            room = not silent and self.short and not self._queue and self._fits(1, now)
        self._come_back()
        if room:
            self.on_room()

    def _fits(self, amount: int, now: float) -> bool:
        if now < self._rests_till or not self.breaker.lets_through() or self.used + amount > self.cap:
            return False
        # One caller always may: with a concurrency of 1, one that needs two would wait for ever.
        return self.used == 0 or self.breaker.opened or self.used + amount <= self.adaptive.value

    def _hand_out(self, amount: int, now: float) -> Permit:
        self.used += amount
        return Permit(self.limit.name, amount, now, probing=self.breaker.begin_call())

    def _refusal(self, now: float) -> Resting | None:
        """The error for callers that would wait long, in a slot that others could use."""
        if self.breaker.rests(now):
            rest, why = self.breaker.rests_till - now, f"its breaker is open: {self.breaker.reason}"
        elif (rest := self._rests_till - now) > PATIENCE:
            why = "it asked for patience"
        else:
            return None
        length = timedelta(seconds=rest)
        return Resting(f"{self.limit.name} rests for another {span(length)}; {why}", retry_after=length)

    def _withdraw(self, waiter: Waiter) -> None:
        """A caller was cancelled; perhaps in the very moment in which it got its permit."""
        with self._lock:
            if waiter in self._queue:
                self._queue.remove(waiter)
        if waiter.permit.done() and not waiter.permit.cancelled() and waiter.permit.exception() is None:
            self.give_back(waiter.permit.result(), NOTHING_SAID)
        else:
            self.serve()

    def _come_back(self) -> None:
        """Serve the queue again when the rest that the dependency asked for is over."""
        rest = self._rests_till - time.monotonic()
        if rest > 0 and self._comes_back_at != self._rests_till and (self._queue or self.short):
            self._comes_back_at = self._rests_till
            asyncio.get_running_loop().call_later(rest, self.serve)

    # -- the heartbeat's thread -----------------------------------------------------------------------------------

    def demand(self, worker_id: int) -> Demand:
        with self._lock:
            need = max([self._need, *(waiter.amount for waiter in self._queue)])
            return Demand(worker_id, self.used, len(self._queue) + self.short, min(need, self.permits))

    def lower(self, cap: int) -> int:
        """Take nothing above `cap` from now on; what we have then, the larger of it and what is in use."""
        with self._lock:
            self.cap = min(self.cap, cap)
            return max(cap, self.used)

    def settle(
        self, cap: int, written: int, row: Record, told: News | None, worker_id: int, *, pool_use: float
    ) -> bool:
        """The commit was acknowledged; True if there may be room now, or a breaker has changed."""
        now = time.monotonic()
        with self._lock:
            grown = cap > self.cap
            self.cap, self._written, self.permits = cap, written, row["permits"]
            had_probe = self.breaker.probe
            changed = self.breaker.see(
                told,
                opened=row["opened"],
                rests_for=row["rests_for"],
                reason=row["reason"],
                mine=row["probe_by"] == worker_id and row["probed"],
                now=now,
            )
            if changed and self.breaker.opened:
                self.adaptive.restart(now)
            else:
                self.adaptive.feel_pool(pool_use, now, self.cap)
            return grown or changed or had_probe is not self.breaker.probe

    def rejoin(self) -> None:
        """A new membership begins without a grant; what handlers of the last one still hold is still in use."""
        with self._lock:
            self.cap = self._written = 0


def read_end(error: BaseException, stop: StopReason | None = None) -> Ending:
    """Read an exception that leaves a call. A handler that was stopped because it took too long waited for the dependency."""
    if stop in TOO_LONG and isinstance(error, asyncio.CancelledError):
        return Ending(Signal.TIMEOUT, f"a handler has {stop.value}")
    signal, text = read_signal(error), f"{type(error).__name__}: {error}"
    reason = storable(mask(text), "")
    if signal is Signal.REFUSED and isinstance(error, RateLimited) and error.asked:
        return Ending(signal, reason, error.retry_after.total_seconds())
    return Ending(signal, reason)
