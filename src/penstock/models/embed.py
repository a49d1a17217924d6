"""Models by name, and the batching of what is to be embedded.

    model = open_model("static")
    vectors = await model.embed(["one text", "another"])      # float32, one row of length 1 for each text

The work runs in a thread of the model's own. What is asked for while a batch runs goes out together in the next one, up to
`BATCH` texts; so many documents share a batch, and a single question waits for one batch at most.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from penstock.errors import BadSetting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 256  # texts: some 50 ms of the built-in model


class Embedder(Protocol):
    """A model in this process; it is made and called in one thread."""

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]": ...


class Model:
    """A model with a name; its weights are read when it is first used."""

    def __init__(self, name: str, dimensions: int, load: Callable[[], Embedder]) -> None:
        self.name = name
        self.dimensions = dimensions
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
        for start in range(0, len(texts), BATCH):  # a long list takes its turn with the others
            future: asyncio.Future[NDArray[np.float32]] = loop.create_future()
            self._asked.append((texts[start : start + BATCH], future))
            if self._running is None or self._running.done():
                self._running = asyncio.create_task(self._run(), name=f"embed-{self.name}")
            parts.append(await future)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def close(self) -> None:
        """Let the thread end; what is under way is finished."""
        self._thread.shutdown(wait=False)

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
            if count and size + len(texts) > BATCH:
                break
            count, size = count + 1, size + len(texts)
        batch, self._asked = self._asked[:count], self._asked[count:]
        return batch

    def _embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        if self._embedder is None:
            self._embedder = self._load()
        return self._embedder.embed(texts)


class Models:
    """The models of one process, each opened when it is first asked for."""

    def __init__(self) -> None:
        self._open: dict[str, Model] = {}

    def open(self, name: str) -> Model:
        if name not in self._open:
            self._open[name] = open_model(name)
        return self._open[name]

    def close(self) -> None:
        for model in self._open.values():
            model.close()
        self._open.clear()


def open_model(name: str) -> Model:
    """The model of this name; nothing is read yet."""
    if name != "static":
        raise BadSetting(f"There is no embedding model {name!r}: the one that comes with Penstock is `static`.")
    return Model(name, 256, _load_static)


def _load_static() -> Embedder:
    from penstock.models.static import StaticModel

    return StaticModel()
