"""Embedding models and the batching of their texts: `LocalModel` for a model in this process, `RequestBatcher` for a server.

A batch has the texts of several callers. Of the requests to a server that may run at once, those less than half full get half,
so that small ones are joined: most documents are small. A request has no more texts and characters than that of a single caller
may have. When a request of several callers fails, each caller's texts are sent alone, so that none fails for another's text. A
caller that is cancelled leaves its request to the others.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import RateLimited, Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]


BATCH = 256  # texts: some 50 ms of the built-in model


class Model(Protocol):
    """An embedding model with a name, in this process or on a server."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text, zeros for a text without a word that the model knows."""
        ...

    async def aclose(self) -> None:
        """Close threads and connections; work under way in a thread is finished."""
        ...


class Embedder(Protocol):
    """The weights of a model; made and called in one thread."""

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]": ...


class LocalModel:
    """A model of this process; its weights are read when it is first used."""

    def __init__(self, name: str, dimensions: int, load: Callable[[], Embedder], *, batch: int = BATCH) -> None:
        self.name = name
        self.dimensions = dimensions
        self._batch = batch
        self._load = load
        self._embedder: Embedder | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"model-{name}")
        self._asked: list[tuple[Sequence[str], asyncio.Future[NDArray[np.float32]]]] = []
        self._running: asyncio.Task[None] | None = None

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text, zeros for a text without a word that the model knows."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        loop = asyncio.get_running_loop()
        parts = []
        for start in range(0, len(texts), self._batch):  # a long list takes turns with the others
            future: asyncio.Future[NDArray[np.float32]] = loop.create_future()
            self._asked.append((texts[start : start + self._batch], future))
            if self._running is None or self._running.done():
                self._running = asyncio.create_task(self._run(), name=f"embed-{self.name}")
            parts.append(await future)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def close(self) -> None:
        """End the thread; work under way is finished."""
        self._thread.shutdown(wait=False)

    async def aclose(self) -> None:
        self.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked:
            batch = self._take()
            texts = [text for part, _ in batch for text in part]
            try:
                rows = await loop.run_in_executor(self._thread, self._embed, texts)
            except asyncio.CancelledError:
                for _, future in batch + self._asked:
                    future.cancel()
                self._asked.clear()
                raise
            except Exception as error:  # noqa: BLE001  each caller gets it
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                start = 0
                for part, future in batch:
                    if not future.done():  # its caller may have been cancelled
                        future.set_result(rows[start : start + len(part)])
                    start += len(part)

    def _take(self) -> "list[tuple[Sequence[str], asyncio.Future[NDArray[np.float32]]]]":
        """As many requests as fit into a batch, in order, and at least one."""
        count, size = 0, 0
        for texts, _ in self._asked:
            if count and size + len(texts) > self._batch:
                break
            count, size = count + 1, size + len(texts)
        batch, self._asked = self._asked[:count], self._asked[count:]
        return batch

    def _embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        if self._embedder is None:
            self._embedder = self._load()
        return self._embedder.embed(texts)


@dataclass(slots=True, eq=False)
class PendingTexts:
    """The texts of one caller, and the future of their rows."""

    texts: list[str]
    rows: "asyncio.Future[Rows]"

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))

    def fail(self, error: BaseException) -> None:
        if not self.rows.done():
            self.rows.set_exception(error)


class RequestBatcher:
    """Joins texts of several callers into requests, of which at most `turns` run at once."""

    def __init__(self, ask: "Callable[[list[str]], Awaitable[Rows]]", turns: int, texts: int, characters: int) -> None:
        self._ask = ask
        self._turns = turns
        self._texts = texts
        self._characters = characters
        self._waiting: deque[PendingTexts] = deque()
        self._under_way: dict[asyncio.Task[None], bool] = {}  # whether it is a small one

    async def embed(self, texts: list[str]) -> "Rows":
        """A row for each text. The texts fit into one request."""
        caller = PendingTexts(texts, asyncio.get_running_loop().create_future())
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

    def _next(self) -> list[PendingTexts]:
        """The callers for the next request, in order; empty while a small one should wait for others."""
        callers: list[PendingTexts] = []
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

    def _is_small(self, callers: list[PendingTexts]) -> bool:
        texts, characters = (sum(len(each.texts) for each in callers), sum(each.characters for each in callers))
        return 2 * texts < self._texts and 2 * characters < self._characters

    async def _serve(self, callers: list[PendingTexts]) -> None:
        try:
            rows = await self._ask([text for caller in callers for text in caller.texts])
        except asyncio.CancelledError:
            for caller in callers:
                caller.rows.cancel()
            raise
        except Exception as error:  # noqa: BLE001  each caller gets it
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

    async def _serve_one_by_one(self, callers: list[PendingTexts]) -> None:
        """Find the caller whose text fails. When the server is unavailable for the first one, it is for all."""
        first, *others = callers
        await self._serve([first])
        if not first.rows.cancelled() and isinstance(error := first.rows.exception(), Unavailable):
            for caller in others:
                caller.fail(error)
            return
        for caller in others:
            await self._serve([caller])
