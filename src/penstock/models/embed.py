"""What a model is, and the batching of what is to be embedded in this process.

    model = open_model("static")
    vectors = await model.embed(["one text", "another"])      # float32, one row of length 1 for each text

A `LocalModel` works in a thread of its own. What is asked for while a batch runs goes out together in the next one, up to a
number of texts; so many documents share a batch, and a single question waits for one batch at most. A remote one (remote.py)
needs no thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 256  # texts: some 50 ms of the built-in model


class Model(Protocol):
    """A model with a name, wherever it runs."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text, zeros for a text without a word that the model knows."""
        ...

    async def aclose(self) -> None:
        """Let go of threads and connections; what is under way in a thread is finished."""
        ...


class Embedder(Protocol):
    """A model in this process; it is made and called in one thread."""

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
        for start in range(0, len(texts), self._batch):  # a long list takes its turn with the others
            future: asyncio.Future[NDArray[np.float32]] = loop.create_future()
            self._asked.append((texts[start : start + self._batch], future))
            if self._running is None or self._running.done():
                self._running = asyncio.create_task(self._run(), name=f"embed-{self.name}")
            parts.append(await future)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def close(self) -> None:
        """Let the thread end; what is under way is finished."""
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
                    if not future.done():  # its caller may have given up
                        future.set_result(rows[start : start + len(part)])
                    start += len(part)

    def _take(self) -> "list[tuple[Sequence[str], asyncio.Future[NDArray[np.float32]]]]":
        """As many requests as fit into a batch, in their order, and at least one."""
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
