"""Follows URLs that clients or documents name: every hop is checked, resolved and connected to separately.

Each hop has its own session, whose resolver knows only the addresses that were checked: a name server that changes its answer
in between is not asked again. TLS still uses the name, for SNI and for the certificate.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from yarl import URL

from penstock.errors import FetchRefused
from penstock.fetch.address import PrivateAllowlist, Resolve, checked_addresses, look_up
from penstock.fetch.target import Target, read_target
from penstock.settings import FetchSettings

if TYPE_CHECKING:  # aiohttp takes 0.2 s to import, and most commands fetch nothing
    import aiohttp

    from penstock.fetch.response import Response

HEADERS = {"User-Agent": "Penstock", "Accept": "*/*", "Accept-Encoding": "identity"}
REDIRECTS = {301, 302, 303, 307, 308}


class Fetcher:
    """Keeps nothing between calls: no cookies, no connections, no answers of the DNS."""

    def __init__(
        self, settings: FetchSettings, *, resolve: Resolve = look_up, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is for callers that trust other certificates than the system does."""
        self._settings = settings
        self._allowlist = PrivateAllowlist.read(settings.private_entries)
        self._resolve = resolve
        self._tls = tls

    @asynccontextmanager
    async def open(
        self, url: str, *, most: int, user_agent: str = "", follow: Callable[[str], None] | None = None
    ) -> "AsyncIterator[Response]":
        """Send a GET, follow its redirects, and yield the answer, of at most `most` bytes.

        FetchRefused is for what stays so, FetchFailed for what may pass. `follow` is called with the URL of each redirect
        before it is requested, and may raise.
        """
        from penstock.fetch.response import Response, check_answer, translate_errors

        deadline = asyncio.get_running_loop().time() + self._settings.timeout.total_seconds()
        headers = HEADERS | ({"User-Agent": user_agent} if user_agent else {})
        target = read_target(url, self._settings.port_numbers)
        passed = {target.url}
        while True:
            async with AsyncExitStack() as stack:
                with translate_errors(target):
                    async with asyncio.timeout_at(deadline):
                        session = await stack.enter_async_context(await self._session(target, headers))
                        answer = await session.get(target.url, allow_redirects=False)
                        stack.callback(answer.close)  # what is not read by then is not waited for
                if answer.status not in REDIRECTS:
                    check_answer(answer, target, most)
                    yield Response(answer, target, most, deadline)
                    return
            target = self._onward(target, answer)
            if target.url in passed:
                raise FetchRefused(f"{target.shown} redirects in a circle.")
            if len(passed) > self._settings.redirects:
                raise FetchRefused(f"More than {self._settings.redirects} redirects, the last to {target.shown}.")
            if follow is not None:
                follow(str(target.url))
            passed.add(target.url)

    async def _session(self, target: Target, headers: dict[str, str]) -> "aiohttp.ClientSession":
        from penstock.fetch.response import pinned_session

        connect = self._settings.connect_timeout.total_seconds()
        addresses = await checked_addresses(target, self._resolve, self._allowlist, connect)
        return pinned_session(target, addresses, headers, self._settings, self._tls)

    def _onward(self, target: Target, answer: "aiohttp.ClientResponse") -> Target:
        location = answer.headers.get("Location", "")
        if not location:
            raise FetchRefused(f"{target.shown} redirects, but names no target.")
        try:
            joined = str(target.url.join(URL(location)))
        except ValueError:
            raise FetchRefused(f"{target.shown} redirects to a target that is not a URL.") from None
        try:
            onward = read_target(joined, self._settings.port_numbers)
        except FetchRefused as error:
            raise FetchRefused(f"{target.shown} redirects to where it is not followed: {error}") from None
        if (target.url.scheme, onward.url.scheme) == ("https", "http"):
            raise FetchRefused(
                f"{target.shown} redirects from https to http, where the content could be altered on its way."
            )
        return onward
