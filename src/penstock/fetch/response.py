"""The HTTP side of a fetch: a session that connects to checked addresses only, and the response with its errors, the name
of the file, and its body in pieces, counted and timed.

FetchRefused is for what stays so, FetchFailed for what may pass. A server that asks to retry later (429, 503 with Retry-After)
is a FetchFailed with `retry_after`, not a RateLimited: that one does not count as an attempt, and a foreign server must not
keep a job alive for ever.
"""

import asyncio
import re
import socket
import ssl
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import PurePosixPath

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from penstock.errors import FetchFailed, FetchRefused
from penstock.fetch.target import Target
from penstock.settings import FetchSettings, format_size
from penstock.text import storable

LONGEST = 255  # bytes of a file name, as in most file systems
PASSING = {408, 425, 429}
LONGEST_WAIT = timedelta(hours=1)
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")


class PinnedResolver(AbstractResolver):
    """Returns the addresses that were checked, and none for any other name."""

    def __init__(self, host: str, addresses: list[str]) -> None:
        self._host = host
        self._addresses = addresses

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if host != self._host:
            raise OSError(f"{host} was not checked")
        return [self._result(address, port) for address in self._addresses]

    def _result(self, address: str, port: int) -> ResolveResult:
        return {
            "hostname": self._host,
            "host": address,
            "port": port,
            "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
            "proto": socket.IPPROTO_TCP,
            "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        }

    @override
    async def close(self) -> None:
        pass


def pinned_session(
    target: Target, addresses: list[str], headers: dict[str, str], settings: FetchSettings, tls: ssl.SSLContext | None
) -> aiohttp.ClientSession:
    """A session for one hop: no cookies, no proxies, and no address but these."""
    connector = aiohttp.TCPConnector(
        resolver=PinnedResolver(target.host, addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=tls if tls is not None else True,
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,  # neither proxies nor .netrc
        timeout=aiohttp.ClientTimeout(
            total=None,
            sock_connect=settings.connect_timeout.total_seconds(),
            sock_read=settings.idle_timeout.total_seconds(),
        ),
    )


class Response:
    """The headers that describe the file, and its body."""

    def __init__(self, answer: aiohttp.ClientResponse, target: Target, most: int, deadline: float) -> None:
        self._answer = answer
        self._target = target
        self._most = most
        self._deadline = deadline
        self.url = str(target.url)
        self.media_type = _media_type(answer.headers.get("Content-Type", ""))
        self.size = answer.content_length
        self.name = file_name(answer.headers.get("Content-Disposition", ""), target)

    def header(self, name: str) -> str:
        """A header; one that was sent several times joined by commas, one that is missing as an empty text."""
        return ", ".join(self._answer.headers.getall(name, []))

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body; can be read once."""
        count = 0
        while piece := await self._next():
            count += len(piece)
            if count > self._most:
                raise too_large(self._target, self._most)
            yield piece

    async def _next(self) -> bytes:
        with translate_errors(self._target):
            # Each wait separately, because a deadline around the caller's loop would cancel the caller's work.
            async with asyncio.timeout_at(self._deadline):
                return await self._answer.content.readany()


def _media_type(header: str) -> str:
    """As the server declares it, without parameters; empty when it is none."""
    declared = header.partition(";")[0].strip().lower()
    return declared if _MEDIA_TYPE.fullmatch(declared) else ""


def file_name(disposition: str, target: Target) -> str:
    """The declared name, else the last part of the URL, else the host; always a single part of a path."""
    return clean_name(_declared(disposition)) or clean_name(target.url.name) or target.host.replace(":", "-")


def _declared(disposition: str) -> str:
    message = Message()
    message["Content-Disposition"] = disposition
    try:
        return message.get_filename() or ""
    except (ValueError, LookupError):  # it may name any codec of Python, also those that decode nothing
        return ""


def clean_name(text: str) -> str:
    """The last part of a path without invisible characters; empty when nothing is left."""
    last = storable(text, "").replace("\\", "/").rpartition("/")[2]
    shown = (
        char for char in unicodedata.normalize("NFC", last) if unicodedata.category(char)[0] not in "CZ" or char == " "
    )
    name = "".join(shown).strip()
    return "" if name in {"", ".", ".."} else _short(name)


def _short(name: str) -> str:
    if len(name.encode()) <= LONGEST:
        return name
    ending = PurePosixPath(name).suffix
    ending = ending if len(ending.encode()) <= 20 else ""
    room = LONGEST - len(ending.encode())
    return name.removesuffix(ending).encode()[:room].decode(errors="ignore") + ending


def check_answer(answer: aiohttp.ClientResponse, target: Target, most: int) -> None:
    if answer.status != HTTPStatus.OK:
        sentence = f"{target.shown} answered {answer.status}{_phrase(answer.status)}."
        if answer.status in PASSING or answer.status >= 500:
            raise FetchFailed(sentence, retry_after=retry_after(answer.headers.get("Retry-After", "")))
        raise FetchRefused(f"{sentence} Correct the URL, or ask the operator of that server.", answered=answer.status)
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise FetchRefused(f"{target.shown} sends its answer compressed, though it was asked not to.")
    if answer.content_length is not None and answer.content_length > most:
        raise too_large(target, most)


def too_large(target: Target, most: int) -> FetchRefused:
    """The error for a declared size and for a counted one."""
    return FetchRefused(f"{target.shown} has more than {format_size(most)}, the most that is taken (limits.bytes).")


def retry_after(header: str) -> timedelta | None:
    """Seconds or a date, at most an hour; None for anything else."""
    try:
        if header.strip().isdecimal():
            wait = timedelta(seconds=min(int(header), LONGEST_WAIT.total_seconds()))
        else:
            date = parsedate_to_datetime(header)
            wait = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), LONGEST_WAIT)


@contextmanager
def translate_errors(target: Target) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise FetchRefused(f"The certificate of {target.host} is not valid for it, or not trusted.") from error
    except TimeoutError as error:
        raise FetchFailed(f"{target.shown} took too long.") from error
    except (aiohttp.ClientError, OSError) as error:
        raise FetchFailed(f"{target.shown} cannot be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return "the connection ended too early"
        case aiohttp.ClientConnectorError():  # its own text has the address that was tried
            return "the server cannot be reached"
        case aiohttp.ClientResponseError():
            return "the server does not speak HTTP as it should"
        case _:
            return "the connection broke"


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""
