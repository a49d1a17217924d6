"""From the URL to the answer: every hop is checked, resolved and connected to anew, until one is not a redirect.

A hop has a session of its own, whose resolver knows only the addresses that were checked: a name server that changes its
answer meanwhile is not asked again. TLS still sees the name, for SNI and for the certificate.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from penstock.errors import FetchRefused
from penstock.fetch.address import Exceptions
from penstock.fetch.judgement import judge, told
from penstock.fetch.resolving import Resolve, checked_addresses
from penstock.fetch.response import Response
from penstock.fetch.target import Target, read_target
from penstock.settings.outside import FetchSettings

HEADERS = {"User-Agent": "Penstock", "Accept": "*/*", "Accept-Encoding": "identity"}
REDIRECTS = {301, 302, 303, 307, 308}


class Pinned(AbstractResolver):
    """Gives the addresses that were checked, and none to any other name."""

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


class Journey:
    """One call of the fetcher."""

    def __init__(
        self,
        settings: FetchSettings,
        exceptions: Exceptions,
        resolve: Resolve,
        tls: ssl.SSLContext | None,
        user_agent: str = "",
    ) -> None:
        self._settings = settings
        self._exceptions = exceptions
        self._resolve = resolve
        self._tls = tls
        self._headers = HEADERS | ({"User-Agent": user_agent} if user_agent else {})
        self._deadline = asyncio.get_running_loop().time() + settings.timeout.total_seconds()

    @asynccontextmanager
    async def travel(self, url: str, most: int, follow: Callable[[str], None] | None = None) -> AsyncIterator[Response]:
        """Follow the redirects, and give the answer at the end of them."""
        target = read_target(url, self._settings.port_numbers)
        passed = {target.url}
        while True:
            async with AsyncExitStack() as stack:
                with told(target):
                    async with asyncio.timeout_at(self._deadline):
                        session = await stack.enter_async_context(await self._session(target))
                        answer = await session.get(target.url, allow_redirects=False)
                        stack.callback(answer.close)  # what is not read by then is not waited for
                if answer.status not in REDIRECTS:
                    judge(answer, target, most)
                    yield Response(answer, target, most, self._deadline)
                    return
            target = self._onward(target, answer)
            if target.url in passed:
                raise FetchRefused(f"{target.shown} redirects in a circle.")
            if len(passed) > self._settings.redirects:
                raise FetchRefused(f"More than {self._settings.redirects} redirects, the last to {target.shown}.")
            if follow is not None:
                follow(str(target.url))
            passed.add(target.url)

    async def _session(self, target: Target) -> aiohttp.ClientSession:
        connect = self._settings.connect_timeout.total_seconds()
        addresses = await checked_addresses(target, self._resolve, self._exceptions, connect)
        connector = aiohttp.TCPConnector(
            resolver=Pinned(target.host, addresses),
            use_dns_cache=False,
            force_close=True,
            ssl=self._tls if self._tls is not None else True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,  # neither proxies nor .netrc
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=connect, sock_read=self._settings.idle_timeout.total_seconds()
            ),
        )

    def _onward(self, target: Target, answer: aiohttp.ClientResponse) -> Target:
        location = answer.headers.get("Location", "")
        if not location:
            raise FetchRefused(f"{target.shown} redirects, but does not say where to.")
        try:
            joined = str(target.url.join(URL(location)))
        except ValueError:
            raise FetchRefused(f"{target.shown} redirects to what is no URL.") from None
        try:
            onward = read_target(joined, self._settings.port_numbers)
        except FetchRefused as error:
            raise FetchRefused(f"{target.shown} redirects to where it is not followed: {error}") from None
        if (target.url.scheme, onward.url.scheme) == ("https", "http"):
            raise FetchRefused(f"{target.shown} redirects from https to http, where anybody could change what comes.")
        return onward
