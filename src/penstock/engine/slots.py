"""The slots of a queue in one worker: what runs, and what was claimed and waits for its turn."""

import time
from collections import deque
from collections.abc import Mapping

from penstock.engine.job import Job
from penstock.engine.kinds import Kinds

PREFETCH_SECONDS = 0.1  # how much work may lie in the buffer, by the measured rate
PREFETCH_MAX = 400


class Slots:
    """The slots of one queue: what runs, and what was claimed and waits for one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = 0
        self.more = True  # the last look left something behind: a free slot is a reason to look again
        self.buffer: deque[Job] = deque()
        self._ended = 0
        self._since = time.monotonic()
        self._rate = 0.0

    def appetite(self) -> int:
        """Free slots, and room in the buffer for what will surely end soon: long jobs must not lie here waiting."""
        ahead = min(PREFETCH_MAX, int(self._rate * PREFETCH_SECONDS))
        return self.size + ahead - self.running - len(self.buffer)

    def note_end(self) -> None:
        self.running -= 1
        self._ended += 1

    def measure(self) -> None:
        now = time.monotonic()
        if now - self._since > 0.02:
            self._rate = 0.5 * self._rate + 0.5 * self._ended / (now - self._since)
            self._ended, self._since = 0, now


def by_queue(kinds: Kinds, concurrency: int | Mapping[str, int]) -> dict[str, int]:
    """The slots of each queue that some kind uses: one number for all of them, or a number for each."""
    queues: dict[str, int] = {}
    for kind in kinds.values():
        size = concurrency if isinstance(concurrency, int) else concurrency.get(kind.queue, 0)
        if size > 0:
            queues[kind.queue] = size
    return queues
