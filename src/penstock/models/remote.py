"""A model behind an OpenAI-compatible address: `POST {url}/embeddings`.

Nothing of an answer is believed: its size, the order, count and dimensions of its vectors, and that they are numbers are
checked (answer.py). What goes wrong is told in the words of the engine: `RateLimited`, `Transient` and a timeout come again,
`Unavailable` without a charge, `Permanent` does not. Small texts of several callers share a request (together.py). The key is
in the header of the request and nowhere else (endpoint.py).
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.models.answer import failure, vectors
from penstock.models.endpoint import PIECE, Endpoint
from penstock.models.together import Together
from penstock.settings.outside import ModelSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AT_ONCE = 4  # requests of one process; the limiter of the engine counts for the fleet
NUMBER_MAX = 40  # bytes that a number of an answer may take, with its spaces


class RemoteModel:
    """One session per process, opened with the first text; `aclose` ends it."""

    def __init__(self, name: str, settings: ModelSettings) -> None:
        self.name = name
        self.dimensions = settings.dimensions
        self._settings = settings
        self._endpoint = Endpoint(f"model {name}", settings)
        self._together = Together(self._vectors, AT_ONCE, settings.batch, settings.batch_characters)

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text, zeros for a blank one, which servers refuse."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        written = [place for place, text in enumerate(texts) if text.strip()]
        for places in batches(texts, written, self._settings.batch, self._settings.batch_characters):
            rows[places] = await self._together.embed([texts[place] for place in places])
        return rows

    async def aclose(self) -> None:
        await self._together.aclose()
        await self._endpoint.aclose()

    async def _vectors(self, texts: list[str]) -> "NDArray[np.float32]":
        answer = await self._ask(texts)
        # off the loop: reading a megabyte of numbers takes 30 ms
        return await asyncio.to_thread(vectors, self.name, answer, len(texts), self.dimensions)

    async def _ask(self, texts: list[str]) -> bytes:
        body: dict[str, Any] = {"model": self._settings.model, "input": texts, "encoding_format": "float"}
        if self._settings.ask_dimensions:
            body["dimensions"] = self.dimensions
        most = len(texts) * (self.dimensions * NUMBER_MAX + 1_000) + PIECE
        secret = self._endpoint.secret
        answered = await self._endpoint.post(
            self._settings.url.rstrip("/") + "/embeddings",
            body,
            {"Authorization": f"Bearer {secret}"} if secret else {},
            most=most,
            too_much=f"The model {self.name} answered with more than {most} bytes, which so few texts of "
            f"{self.dimensions} dimensions cannot have. Check models.{self.name}.url and dimensions.",
        )
        if answered.status != 200:
            raise failure(self.name, answered.status, answered.headers.get("Retry-After"), answered.content, secret)
        return answered.content


def batches(texts: Sequence[str], places: Sequence[int], most: int, characters: int) -> Iterator[list[int]]:
    """The places in their order, so many texts or characters at a time; a longer text goes alone."""
    batch: list[int] = []
    size = 0
    for place in places:
        if batch and (len(batch) >= most or size + len(texts[place]) > characters):
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += len(texts[place])
    if batch:
        yield batch
