"""How long the client waits, and whether and when it tries again. Nothing here waits or sends.

A request is sent again only if that cannot do its work twice: GET, HEAD and DELETE, and whatever carries an
Idempotency-Key and a body that can be sent again. And only after what may pass: a connection that failed, and 429, 502,
503 and 504. One more answer counts as such: 409 for a key that is in flight, when it is our own earlier try that the
server has not noticed the end of.
"""

import os
import time
from dataclasses import dataclass

from penstock.client.errors import ClientError, KeyInFlight, Unreachable

FIRST = 0.2  # seconds
LONGEST = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds, all of them."""

    timeout: float = 30.0  # for each piece that is sent or received
    connect: float = 10.0
    deadline: float = 60.0  # no try begins after it
    tries: int = 6

    def __post_init__(self) -> None:
        if min(self.timeout, self.connect, self.deadline) <= 0 or self.tries < 1:
            raise ValueError("timeout, connect and deadline are more than 0 seconds, and tries is 1 or more.")


def backoff(failures: int, chance: float) -> float:
    """0.2, 0.4, 0.8 … seconds, at most 5, of which chance in [0, 1] takes up to a half: callers come apart."""
    return min(LONGEST, FIRST * 2.0 ** min(failures - 1, 10)) * (1 - 0.5 * chance)


class Attempts:
    """The tries of one request."""

    def __init__(self, patience: Patience, *, repeatable: bool) -> None:
        self._patience = patience
        self._repeatable = repeatable
        self._failures = 0
        self._lost = False  # a try whose end we do not know
        self.until = time.monotonic() + patience.deadline

    def renew(self) -> None:
        """It went on: what failed before is forgiven."""
        self._failures = 0
        self.until = time.monotonic() + self._patience.deadline

    def timeout(self) -> tuple[float, float]:
        """For connecting and for each piece of the next try."""
        left = max(0.001, self.until - time.monotonic())
        return min(self._patience.connect, left), min(self._patience.timeout, left)

    def pause_after(self, error: ClientError) -> float:
        """Seconds until the next try; the error itself if there is none."""
        error.repeated = self._lost
        ours = isinstance(error, KeyInFlight) and self._lost
        self._lost = self._lost or isinstance(error, Unreachable)
        self._failures += 1
        if not self._repeatable or not (error.passing or ours) or self._failures >= self._patience.tries:
            raise error
        pause = backoff(self._failures, _chance())
        if error.retry_after is not None:
            pause = max(pause, error.retry_after * (1 + 0.1 * _chance()))
        if time.monotonic() + pause >= self.until:
            raise error
        return pause


def _chance() -> float:
    """From 0 to 1; the module `random` takes longer to import than all of this."""
    return int.from_bytes(os.urandom(2)) / 0xFFFF
