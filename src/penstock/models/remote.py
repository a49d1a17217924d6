"""A model behind an OpenAI-compatible address: `POST {url}/embeddings`.

Nothing of an answer is believed: its size, the order, count and dimensions of its vectors, and that they are numbers are
checked (answer.py). What goes wrong is told in the words of the engine: `RateLimited`, `Transient` and a timeout come again,
`Permanent` does not. The key is in the header of the request and nowhere else; a redirect is not followed, because it would
take the key along.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import Permanent, Transient
from penstock.models.answer import failure, vectors
from penstock.settings.outside import ModelSettings
from penstock.telemetry import hide

if TYPE_CHECKING:
    import aiohttp
    import numpy as np
    from numpy.typing import NDArray

AT_ONCE = 4  # requests of one process; the limiter of the engine counts for the fleet
NUMBER_MAX = 40  # bytes that a number of an answer may take, with its spaces
PIECE = 64 * 2**10


class RemoteModel:
    """One session per process, opened with the first text; `aclose` ends it."""

    def __init__(self, name: str, settings: ModelSettings) -> None:
        self.name = name
        self.dimensions = settings.dimensions
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        hide(self._secret())

    async def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One row of length 1 for each text, zeros for a blank one, which servers refuse."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        written = [place for place, text in enumerate(texts) if text.strip()]
        for places in batches(texts, written, self._settings.batch, self._settings.batch_characters):
            async with self._turns:
                answer = await self._ask([texts[place] for place in places])
            # off the loop: reading a megabyte of numbers takes 30 ms
            rows[places] = await asyncio.to_thread(vectors, self.name, answer, len(places), self.dimensions)
        return rows

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, texts: list[str]) -> bytes:
        import aiohttp

        body: dict[str, Any] = {"model": self._settings.model, "input": texts, "encoding_format": "float"}
        if self._settings.ask_dimensions:
            body["dimensions"] = self.dimensions
        most = len(texts) * (self.dimensions * NUMBER_MAX + 1_000) + PIECE
        try:
            async with self._opened().post(
                self._settings.url.rstrip("/") + "/embeddings",
                json=body,
                headers=self._headers(),
                allow_redirects=False,
            ) as response:
                content = await self._read(response, most if response.status == 200 else PIECE)
                status, headers = response.status, response.headers
        except TimeoutError:
            raise TimeoutError(f"The model {self.name} did not answer in time.") from None  # halves the level, too
        except aiohttp.ClientConnectorCertificateError:
            raise Transient(f"The certificate of the model {self.name} is not one that this machine trusts.") from None
        except aiohttp.ClientConnectorError as error:
            raise Transient(
                f"The model {self.name} cannot be reached at {error.host}:{error.port}: {error.strerror}."
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            # not its text, which may quote what was sent
            raise Transient(f"The model {self.name} broke off its answer ({type(error).__name__}).") from None
        if status != 200:
            raise failure(self.name, status, headers.get("Retry-After"), content, self._secret())
        return content

    async def _read(self, response: "aiohttp.ClientResponse", most: int) -> bytes:
        content = bytearray()
        async for piece in response.content.iter_chunked(PIECE):
            content += piece
            if len(content) > most:
                if response.status != 200:
                    return bytes(content[:most])
                raise Permanent(
                    f"The model {self.name} answered with more than {most} bytes, which so few texts of "
                    f"{self.dimensions} dimensions cannot have. Check models.{self.name}.url and dimensions."
                )
        return bytes(content)

    def _opened(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=self._settings.timeout.total_seconds(),
                sock_connect=self._settings.connect_timeout.total_seconds(),
            )
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {secret}"} if (secret := self._secret()) else {}

    def _secret(self) -> str:
        return self._settings.key.get_secret_value() if self._settings.key else ""


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
