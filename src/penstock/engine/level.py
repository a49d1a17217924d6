"""How many calls to a dependency a worker dares to have under way at once. A pure rule.

The level starts at 1 and grows by one with every success: it doubles in each round trip. A sign of overload (a refusal, a
timeout, a full pool) halves it, and 85 % of where it was becomes a threshold: up to there it grows as fast as before, and
beyond it by one in a round trip. So it finds a server's capacity in a few round trips, stays near it, and follows when it
changes. A call that began before the last halving says nothing new about overload: it does not count. If it goes well, it
counts up to the threshold only: when one of many was refused, the others bring most of the level back at once, and when
nothing comes back, it stays halved.
"""

from dataclasses import dataclass
from math import inf

REMEMBERED = 0.85  # of the level at which it was too much
POOL_BUSY = 0.8
POOL_CALM = 0.5


@dataclass
class Level:
    """The level of one limit in one worker; times are of any one clock."""

    value: float = 1.0
    threshold: float = inf
    halved_at: float = -inf

    def succeed(self, began: float, amount: int = 1, *, in_use: bool, most: int, pool_use: float) -> None:
        """A call came back well. A level that is not used says nothing about a higher one."""
        if not in_use or pool_use > POOL_CALM or self.value >= most:
            return
        if self.value < self.threshold:
            self.value = min(self.value + amount, max(self.value, self.threshold), most)
        elif began >= self.halved_at:
            self.value = min(self.value + amount / self.value, most)

    def shrink(self, began: float, now: float, most: int) -> None:
        """Too much: once for all calls that were under way."""
        if began < self.halved_at:
            return
        value = min(self.value, max(most, 1))
        self.threshold = max(1.0, REMEMBERED * value)
        self.value = max(1.0, value / 2)
        self.halved_at = now

    def feel_pool(self, use: float, now: float, most: int) -> None:
        """Our own database is a dependency, too: looked at with each beat."""
        if use > POOL_BUSY:
            self.shrink(now, now, most)

    def restart(self, now: float) -> None:
        """After an outage, as in the beginning: from 1, for what a server bears when it comes back is not known."""
        self.value, self.threshold, self.halved_at = 1.0, inf, now
