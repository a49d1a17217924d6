"""Follows a URL that somebody else has written, and only to where that person may send us.

The caller names the most bytes that it takes, reads the pieces as they come, and keeps nothing in memory:

    async with fetcher.open(url, most=settings.limits.bytes) as response:
        stored = await store.write(response.pieces(), most=settings.limits.bytes)

The client library is imported with the first call.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.fetch.address import Exceptions
from penstock.fetch.resolving import Resolve, look_up
from penstock.settings.outside import FetchSettings

if TYPE_CHECKING:
    from penstock.fetch.response import Response


class Fetcher:
    """Keeps nothing between calls: no cookies, no connections, no answers of the DNS."""

    def __init__(
        self, settings: FetchSettings, *, resolve: Resolve = look_up, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is for those who trust other certificates than the system does."""
        self._settings = settings
        self._exceptions = Exceptions.read(settings.private_entries)
        self._resolve = resolve
        self._tls = tls

    @asynccontextmanager
    async def open(
        self, url: str, *, most: int, user_agent: str = "", follow: Callable[[str], None] | None = None
    ) -> "AsyncIterator[Response]":
        """The answer to a GET, of at most so many bytes; FetchRefused for what cannot work, FetchFailed for what may.

        `follow` is told each URL of a redirect before it is asked for, and may raise.
        """
        from penstock.fetch.journey import Journey

        journey = Journey(self._settings, self._exceptions, self._resolve, self._tls, user_agent)
        async with journey.travel(url, most, follow) as response:
            yield response
