"""HTTP requests to the server of a model: a deadline, a key, and a bound for the answer.

    endpoint = Endpoint("language model main", settings.llms["main"])
    reply = await endpoint.post(url, body, headers, most=4 * 2**20, too_much="…")

Errors become those of the engine: a server that cannot be reached or cuts its answer off is `Unavailable`, a late one a
`TimeoutError`; both lower the adaptive concurrency limit. The text of an exception is not passed on, because it may quote what
was sent. A redirect is not followed, because it would take the key along.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import Permanent, Unavailable
from penstock.settings import LlmSettings, ModelSettings
from penstock.telemetry import hide

if TYPE_CHECKING:
    import aiohttp

PIECE = 64 * 2**10


@dataclass(frozen=True)
class HttpReply:
    status: int
    headers: Mapping[str, str]
    content: bytes


class Endpoint:
    """One session per process, opened with the first request; `aclose` ends it."""

    def __init__(self, called: str, settings: LlmSettings | ModelSettings) -> None:
        self._called = called
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        hide(self.secret)

    @property
    def secret(self) -> str:
        """The key, or an empty text."""
        return self._settings.key.get_secret_value() if self._settings.key else ""

    async def post(
        self, url: str, body: dict[str, Any], headers: dict[str, str], *, most: int, too_much: str
    ) -> HttpReply:
        """Return the answer; more than `most` bytes with status 200 are `Permanent`, with the sentence `too_much`."""
        import aiohttp

        try:
            async with self._opened().post(url, json=body, headers=headers, allow_redirects=False) as response:
                content = await self._read(response, most, too_much)
                return HttpReply(response.status, response.headers, content)
        except aiohttp.ConnectionTimeoutError:
            raise Unavailable(f"The {self._called} cannot be reached: connecting takes too long.") from None
        except TimeoutError:
            raise TimeoutError(f"The {self._called} did not answer in time.") from None
        except aiohttp.ClientConnectorCertificateError:
            raise Unavailable(f"The certificate of the {self._called} is not trusted by this machine.") from None
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(
                f"The {self._called} cannot be reached at {error.host}:{error.port}: {error.strerror}."
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"The {self._called} cut off its answer ({type(error).__name__}).") from None

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _read(self, response: "aiohttp.ClientResponse", most: int, too_much: str) -> bytes:
        good = response.status == 200
        content = bytearray()
        async for piece in response.content.iter_chunked(PIECE):
            content += piece
            if good and len(content) > most:
                raise Permanent(too_much)
            if not good and len(content) > PIECE:
                return bytes(content[:PIECE])
        return bytes(content)

    def _opened(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=self._settings.timeout.total_seconds(),
                sock_connect=self._settings.connect_timeout.total_seconds(),
            )
            self._session = aiohttp.ClientSession(
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=aiohttp.TCPConnector(limit=0),  # the permits of the fleet are the limit
            )
        return self._session
