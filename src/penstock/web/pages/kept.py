"""Facts that many viewers ask for in the same moment: read once, and shared for a second."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST = 200  # different questions that are remembered


class Kept(Generic[T]):
    """Answers by question. One that is not fresh is made anew; until it is `stale`, nobody waits for that."""

    def __init__(self, fresh: float, stale: float = 0.0) -> None:
        self._fresh = fresh
        self._stale = max(fresh, stale)
        self._known: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        made_at, answer = self._known.get(key, (float("-inf"), None))
        age = time.monotonic() - made_at
        if age <= self._fresh and answer is not None:
            return answer
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(key, make), name="kept")
            task.add_done_callback(lambda _: self._making.pop(key, None))
            task.add_done_callback(_look)  # who waits for it may leave
        if age <= self._stale and answer is not None:
            return answer
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        answer = await make()
        self._known[key] = (time.monotonic(), answer)
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return answer


def _look(task: "asyncio.Task[T]") -> None:
    """An error that nobody waited for comes again to who waits for the next try."""
    if not task.cancelled():
        task.exception()
