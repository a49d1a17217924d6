"""How late the event loop of this process was lately: readiness tells of a loop that something has blocked."""

import asyncio
import time
from collections import deque

TICK = 0.1
BLOCKED_AFTER = 1.0  # seconds that a tick may be late
REMEMBERED = 10.0  # seconds for which a blocked loop is told


class Pulse:
    """How late the event loop was lately."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque()  # when, and by how much
        self._ticked_at = float("inf")  # it does not beat yet

    async def beat(self) -> None:
        self._ticked_at = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            self._note()

    def _note(self) -> None:
        now = time.monotonic()
        late = now - self._ticked_at - TICK
        self._ticked_at = now
        if late > BLOCKED_AFTER:
            self._late.append((now, late))
        while self._late and now - self._late[0][0] > REMEMBERED:
            self._late.popleft()

    @property
    def worst(self) -> float:
        """Seconds that the loop was blocked at most, of late. A request may be served before the tick that was late."""
        pending = time.monotonic() - self._ticked_at - TICK
        return max([late for _, late in self._late] + [pending if pending > BLOCKED_AFTER else 0.0])

    @property
    def blocked(self) -> str:
        """For how long, as the beginning of a sentence; empty if it was not."""
        return f"The event loop was blocked for {self.worst:.1f} s" if self.worst > BLOCKED_AFTER else ""
