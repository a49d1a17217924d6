"""An embedding model at an OpenAI-compatible address: `POST {url}/embeddings`.

The rows of an answer are taken by their `index`, not by their order. A vector of another length is `Permanent`, because the
server will return it again; an answer that is incomplete or not JSON is `Transient`, because servers and proxies may cut it
off.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import JobFailure, Permanent, RateLimited, Transient, Unavailable
from penstock.models.embed import RequestBatcher
from penstock.models.endpoint import PIECE, Endpoint
from penstock.settings import ModelSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AT_ONCE = 4  # requests of one process; the limiter of the engine counts for the fleet
NUMBER_MAX = 40  # bytes that a number of an answer may take, with its spaces
LONGEST_REST = 3600.0  # seconds: a longer Retry-After is cut


class RemoteModel:
    """One session per process, opened with the first text; `aclose` ends it."""

    def __init__(self, name: str, settings: ModelSettings) -> None:
        self.name = name
        self.dimensions = settings.dimensions
        self._settings = settings
        self._endpoint = Endpoint(f"model {name}", settings)
        self._batcher = RequestBatcher(self._vectors, AT_ONCE, settings.batch, settings.batch_characters)

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text, zeros for a blank one, which servers refuse."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        written = [place for place, text in enumerate(texts) if text.strip()]
        for places in batches(texts, written, self._settings.batch, self._settings.batch_characters):
            rows[places] = await self._batcher.embed([texts[place] for place in places])
        return rows

    async def aclose(self) -> None:
        await self._batcher.aclose()
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
        reply = await self._endpoint.post(
            self._settings.url.rstrip("/") + "/embeddings",
            body,
            {"Authorization": f"Bearer {secret}"} if secret else {},
            most=most,
            too_much=f"The model {self.name} answered with more than {most} bytes, which is too much for so few texts of "
            f"{self.dimensions} dimensions: check models.{self.name}.url and dimensions.",
        )
        if reply.status != 200:
            raise failure(self.name, reply.status, reply.headers.get("Retry-After"), reply.content, secret)
        return reply.content


def batches(texts: Sequence[str], places: Sequence[int], most: int, characters: int) -> Iterator[list[int]]:
    """Batches of places in order, of at most `most` texts and `characters`; a longer text is a batch by itself."""
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


def vectors(name: str, content: bytes, count: int, dimensions: int) -> "NDArray[np.float32]":
    """Rows of length 1 in the order of the texts."""
    import numpy as np

    rows = np.zeros((count, dimensions), dtype=np.float64)
    seen: set[int] = set()
    for index, values in _entries(name, content):
        if not 0 <= index < count or index in seen:
            raise Transient(f"The model {name} answered twice for one text, or for a text that was not sent.")
        seen.add(index)
        if len(values) != dimensions:
            raise Permanent(
                f"The model {name} returns vectors of {len(values)} dimensions, but models.{name}.dimensions is "
                f"{dimensions}: correct the setting, or the model at the address."
            )
        try:
            rows[index] = values
        except (ValueError, TypeError, OverflowError):
            raise Transient(f"The model {name} returned a vector with a value that is not a number.") from None
    if len(seen) < count:
        raise Transient(f"The model {name} returned {len(seen)} vectors for {count} texts.")
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise Transient(f"The model {name} returned a vector with a value that is not a number.")
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _entries(name: str, content: bytes) -> Iterator[tuple[int, list[Any]]]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise Transient(f"The model {name} sent an answer that is incomplete, or is not JSON.") from None
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise Transient(f"The model {name} answered without vectors.")
    for entry in entries:
        index, values = (entry.get("index"), entry.get("embedding")) if isinstance(entry, dict) else (None, None)
        if type(index) is not int or not isinstance(values, list):
            raise Transient(f"The model {name} answered with an entry that has no index or no vector.")
        yield index, values


def failure(name: str, status: int, retry_after: str | None, content: bytes, secret: str) -> JobFailure:
    """The error of a job for an answer with this status; the key is in none of the sentences."""
    if status in (401, 403):  # without the server's message, which often quotes the key
        what = "refuses the key" if secret else "needs a key"
        return Permanent(f"The model {name} {what} ({status}): set models.{name}.key to a valid one.")
    message = _message(content, secret)
    rest = seconds(retry_after)
    if status == 429 or (status == 503 and rest is not None):
        return RateLimited(f"The model {name} limits the rate of requests ({status}){message}", retry_after=rest)
    if status >= 500:
        return Unavailable(f"The model {name} failed ({status}){message}")
    if status in (408, 425):
        return Transient(f"The model {name} failed ({status}){message}")
    return Permanent(f"The model {name} rejects the request ({status}){message}{_advice(name, status)}")


def _advice(name: str, status: int) -> str:
    if 300 <= status < 400:
        return f" The server has moved: set models.{name}.url to its new address."
    if status == 404:
        return f" Check models.{name}.url and models.{name}.model."
    return f" Lower models.{name}.batch or models.{name}.batch_characters." if status == 413 else ""


def seconds(retry_after: str | None) -> float | None:
    """A Retry-After in either of its forms: seconds or a date; None when it is neither."""
    if not retry_after:
        return None
    try:
        rest = float(retry_after)
    except ValueError:
        try:
            date = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        rest = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(rest, 0.0), LONGEST_REST) if rest == rest else None  # noqa: PLR0124  NaN is not itself


def _message(content: bytes, secret: str) -> str:
    """The server's own message, short, on one line, and without the key."""
    try:
        answer = json.loads(content)
        error = answer.get("error", answer)
        message = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, RecursionError, AttributeError):
        message = ""
    if not isinstance(message, str) or not message.strip():
        return "."
    if secret:
        message = message.replace(secret, "***")
    words = " ".join("".join(sign if sign.isprintable() else " " for sign in message).split())
    return f": {words[:200].rstrip('.')}."
