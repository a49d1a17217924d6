"""A worker's right to its jobs, as a deadline on this process's own monotonic clock.

The lease is counted from the moment the beat was *sent*: the server cannot have written it earlier. A worker that cannot
renew stops its own work when `FENCE_AT` of the lease has passed, so that nothing of it runs when others may take over.
"""

import time
from datetime import timedelta

FENCE_AT = 0.7


class Lease:
    """Renewed by the beat's thread, read by the worker's loop; a float is written in one piece."""

    def __init__(self, length: timedelta) -> None:
        self.length = length
        self._seconds = length.total_seconds()
        self._renewed_at = time.monotonic()

    def renew(self, sent_at: float) -> None:
        self._renewed_at = sent_at

    @property
    def must_stop(self) -> bool:
        """Time to stop our own work: others may soon take it over."""
        return time.monotonic() - self._renewed_at > FENCE_AT * self._seconds
