"""Texts of several callers in one request: who comes while all turns are taken goes with others in the next one.

Requests that are less than half full have half of the turns, so that small ones find company: most documents are small. A
request has no more texts and characters than one of a single caller may have. When one of several callers fails, each of them
is asked for alone, so that nobody pays for another's text. A caller that is cancelled leaves, and the others stay.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import RateLimited, Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]


@dataclass(slots=True, eq=False)
class Caller:
    """Somebody who waits for the rows of its texts."""

    texts: list[str]
    rows: "asyncio.Future[Rows]"

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))

    def fail(self, error: BaseException) -> None:
        if not self.rows.done():
            self.rows.set_exception(error)


class Together:
    """The requests of one model in one process, so many at once."""

    def __init__(self, ask: "Callable[[list[str]], Awaitable[Rows]]", turns: int, texts: int, characters: int) -> None:
        self._ask = ask
        self._turns = turns
        self._texts = texts
        self._characters = characters
        self._waiting: deque[Caller] = deque()
        self._under_way: dict[asyncio.Task[None], bool] = {}  # whether it is a small one

    async def embed(self, texts: list[str]) -> "Rows":
        """A row for each text; texts are no more than fit into one request."""
        caller = Caller(texts, asyncio.get_running_loop().create_future())
        self._waiting.append(caller)
        self._begin()
        try:
            return await caller.rows
        except asyncio.CancelledError:
            if caller in self._waiting:
                self._waiting.remove(caller)
            raise

    async def aclose(self) -> None:
        while self._waiting:
            self._waiting.popleft().rows.cancel()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _begin(self) -> None:
        while len(self._under_way) < self._turns and (callers := self._next()):
            task = asyncio.create_task(self._serve(callers))
            self._under_way[task] = self._is_small(callers)
            task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        del self._under_way[task]
        self._begin()

    def _next(self) -> list[Caller]:
        """Those who fit into one request, in the order in which they came; nobody while others may still come along."""
        callers: list[Caller] = []
        texts = characters = 0
        for caller in self._waiting:
            texts += len(caller.texts)
            characters += caller.characters
            if callers and (texts > self._texts or characters > self._characters):
                break
            callers.append(caller)
        if self._is_small(callers) and 2 * sum(self._under_way.values()) >= self._turns:
            return []
        for _ in callers:
            self._waiting.popleft()
        return callers

    def _is_small(self, callers: list[Caller]) -> bool:
        texts, characters = (sum(len(each.texts) for each in callers), sum(each.characters for each in callers))
        return 2 * texts < self._texts and 2 * characters < self._characters

    async def _serve(self, callers: list[Caller]) -> None:
        try:
            rows = await self._ask([text for caller in callers for text in caller.texts])
        except asyncio.CancelledError:
            for caller in callers:
                caller.rows.cancel()
            raise
        except Exception as error:  # noqa: BLE001  it is for those who wait
            if len(callers) > 1 and not isinstance(error, RateLimited | TimeoutError):
                await self._serve_one_by_one(callers)
                return
            for caller in callers:
                caller.fail(error)
        else:
            first = 0
            for caller in callers:
                if not caller.rows.done():
                    caller.rows.set_result(rows[first : first + len(caller.texts)])
                first += len(caller.texts)

    async def _serve_one_by_one(self, callers: list[Caller]) -> None:
        """Whose text it was. When the first one finds nobody there, neither would the others."""
        first, *others = callers
        await self._serve([first])
        if not first.rows.cancelled() and isinstance(error := first.rows.exception(), Unavailable):
            for caller in others:
                caller.fail(error)
            return
        for caller in others:
            await self._serve([caller])
