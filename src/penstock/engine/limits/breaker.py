"""The circuit breaker: a dependency that fails again and again is not called for a while. A pure rule of one worker.

    closed ── failures in a row ──▶ open ── the rest is over ──▶ one worker of the fleet has the probe
       ▲                             ▲ └────────── it fails: a longer rest ──────────┘
       └─────────────────────────────┼──────────── it succeeds ──────────────────────┘

The row in `penstock.limits` is the breaker of the fleet. `Breaker` is one worker's copy of it, with what it has to report:
`news` goes out with the next heartbeat and is cleared when that was acknowledged (exchange.py).
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from math import inf

from penstock.errors import (
    CallTimedOut,
    DatabaseTrouble,
    DatabaseUnreachable,
    LeaseLost,
    Permanent,
    QueueFull,
    RateLimited,
    Resting,
)

LONGEST_REST = timedelta(minutes=10)
REASON_MAX = 300


class Signal(Enum):
    """The state of the dependency, as the end of a call shows it."""

    SUCCESS = "success"
    REFUSED = "refused"  # alive, but asks for patience
    TIMEOUT = "timeout"  # overload and failure alike
    FAILURE = "failure"
    NOTHING = "nothing"  # our own error


class News(Enum):
    """A change that a worker reports to the fleet."""

    TRIPPED = "tripped"
    PROBE_FAILED = "the probe failed"
    PROBE_SUCCEEDED = "the probe succeeded"


class Probe(Enum):
    """The worker's right to one call while the breaker is open."""

    NONE = "none"
    FREE = "free"
    TAKEN = "taken"


def read_signal(error: BaseException | None) -> Signal:
    """Read an exception that leaves a call; without one it went well."""
    match error:
        case None:
            return Signal.SUCCESS
        case Resting() | QueueFull() | Permanent() | LeaseLost() | asyncio.CancelledError():
            return Signal.NOTHING
        case RateLimited():
            return Signal.REFUSED
        case TimeoutError() | CallTimedOut():
            return Signal.TIMEOUT
        case DatabaseTrouble() | DatabaseUnreachable():  # ours, not the dependency
            return Signal.NOTHING
    return Signal.FAILURE if isinstance(error, Exception) else Signal.NOTHING


def rest_after(first: timedelta, trips: int) -> timedelta:
    """The rest after so many openings in a row without a success; at most ten minutes."""
    longest = max(first, LONGEST_REST)
    return min(first * int(2 ** min(trips, 20)), longest)


@dataclass
class Breaker:
    """One worker's view; times are of its monotonic clock."""

    after: int
    failures: int = 0
    opened: bool = False
    rests_till: float = -inf
    reason: str = ""
    probe: Probe = Probe.NONE
    news: News | None = None
    changed_at: float = -inf  # calls that began before are a matter of the past

    def lets_through(self) -> bool:
        return not self.opened or self.probe is Probe.FREE

    def rests(self, now: float) -> bool:
        """Open, and it is known until when."""
        return self.opened and now < self.rests_till < inf

    def begin_call(self) -> bool:
        """A call begins; True if it is the probe."""
        if self.opened and self.probe is Probe.FREE:
            self.probe = Probe.TAKEN
            return True
        return False

    def note(self, signal: Signal, began: float, reason: str, *, probing: bool) -> None:
        if probing:
            self._judge_probe(signal, reason)
        elif self.opened or began < self.changed_at:
            return
        elif signal is Signal.SUCCESS:
            self.failures = 0
        elif signal in (Signal.FAILURE, Signal.TIMEOUT):
            self.failures += 1
            if self.failures >= self.after:
                self.opened, self.rests_till = True, inf  # until the fleet's row has the end of the rest
                self.news, self.reason = News.TRIPPED, reason[:REASON_MAX]

    def _judge_probe(self, signal: Signal, reason: str) -> None:
        if self.probe is not Probe.TAKEN:  # it was lost meanwhile
            return
        match signal:
            case Signal.SUCCESS | Signal.REFUSED:  # a dependency that asks for patience is available
                self.probe, self.news = Probe.NONE, News.PROBE_SUCCEEDED
            case Signal.FAILURE | Signal.TIMEOUT:
                self.probe, self.news, self.reason = Probe.NONE, News.PROBE_FAILED, reason[:REASON_MAX]
                self.rests_till = inf
            case Signal.NOTHING:
                self.probe = Probe.FREE

    def see(self, told: News | None, *, opened: bool, rests_for: float, reason: str, mine: bool, now: float) -> bool:
        """Apply the fleet's row, which has received `told`; True when the breaker has opened or closed."""
        if self.news is not told:  # something has happened meanwhile, which the row does not know yet
            return False
        changed = opened != self.opened or told is not None
        if changed:
            self.failures, self.changed_at = 0, now
        self.news, self.opened, self.reason = None, opened, reason
        self.rests_till = now + rests_for if opened else -inf
        if not (opened and mine):
            self.probe = Probe.NONE
        elif self.probe is Probe.NONE:
            self.probe = Probe.FREE
        return changed
