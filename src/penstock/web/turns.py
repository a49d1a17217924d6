"""Turns: how many searches run at once, and who of those that wait comes next.

Beyond its capacity a server can only choose whom to disappoint. A queue without an end disappoints all: each waits for all
that came before. Here a short rush is waited out, first come first served. A queue that stays longer than there are turns is
no rush but overload (the idea of CoDel): then nobody waits longer than a search usually takes, and the newest is next,
because the others are about to leave. So those that are let in stay fast, and the others are told at once to come again.
"""

import asyncio
import time
from collections import deque

PATIENCE = 0.5  # seconds that one waits in a rush
STANDING = 0.1  # seconds after which a queue that was never short is overload
PLACES = 16  # in the queue, for each turn that can be taken
FIRST_GUESS = 0.05  # seconds of a search, before there was one
SHORTEST = 0.005  # seconds: less than this is the noise of the event loop
WEIGHT = 1 / 16  # of the newest search in the usual time


class Turns:
    """So many may be taken at once."""

    def __init__(self, at_once: int, *, patience: float = PATIENCE, standing: float = STANDING) -> None:
        self._free = self._short = at_once
        self._patience = patience
        self._standing = standing
        self._places = PLACES * at_once
        self._waiting: deque[asyncio.Future[bool]] = deque()  # the oldest first
        self._since = 0.0  # when the queue was short for the last time: its end came within the time of a search
        self._usual = FIRST_GUESS

    async def take(self) -> "Turn | None":
        """A turn, which must be ended; None when there is none in time."""
        if self._free:
            self._free -= 1
            return Turn(self)
        return Turn(self) if await self._wait() else None

    async def _wait(self) -> bool:
        loop = asyncio.get_running_loop()
        if len(self._waiting) < self._short:
            self._since = time.monotonic()
        elif len(self._waiting) >= self._places:
            _tell(self._waiting.popleft(), False)
        turn: asyncio.Future[bool] = loop.create_future()
        patience = max(SHORTEST, min(self._usual, self._patience)) if self._is_overload() else self._patience
        leaving = loop.call_later(patience, _tell, turn, False)
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():  # it came in the same moment
                self.pass_on()
            raise
        finally:
            leaving.cancel()
            if turn in self._waiting:
                self._waiting.remove(turn)

    def pass_on(self) -> None:
        """Give a turn that is over to one who waits."""
        while self._waiting:
            turn = self._waiting.pop() if self._is_overload() else self._waiting.popleft()
            if _tell(turn, True):
                return
        self._free += 1

    def note(self, seconds: float) -> None:
        """Learn how long a search takes."""
        self._usual += WEIGHT * (seconds - self._usual)

    def _is_overload(self) -> bool:
        return time.monotonic() - self._since > self._standing


class Turn:
    """One search that is under way."""

    def __init__(self, turns: Turns) -> None:
        self._turns: Turns | None = turns
        self._began = time.monotonic()

    def end(self) -> None:
        """Once is enough, and twice is no harm."""
        if self._turns is not None:
            turns, self._turns = self._turns, None
            turns.note(time.monotonic() - self._began)
            turns.pass_on()


def _tell(turn: "asyncio.Future[bool]", answer: bool) -> bool:
    """Whether it still waited for one: it may have left, or have been cancelled, a moment ago."""
    if turn.done():
        return False
    turn.set_result(answer)
    return True
