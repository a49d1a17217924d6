"""Requests and answers over HTTP: one pool of connections, with a limit on every wait.

The library is httpx2 (BSD): it has the same interface in both flavours, so that one source can be both, and it comes with
Penstock anyway. aiohttp takes less CPU for each call, but has no sync side; http.client would be a second implementation.
It is imported with the first request. A redirect is not followed, because it would take the key along.
"""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from penstock import __version__
from penstock.client.errors import BadAnswer, ClientError, NotInstalled, Unreachable, read_problem
from penstock.client.models import R, decode, decode_list
from penstock.client.transport import Address, Attempts, Patience, async_sleep, expand, query_of
from penstock.client.upload_body import Content

if TYPE_CHECKING:
    import httpx2

SAFE = frozenset({"GET", "HEAD", "DELETE"})
IDLE = 2.0  # seconds: the server closes after 5, and a request must not meet that


class RequestOptions(TypedDict, total=False):
    """Options of `AsyncTransport.ask`."""

    at: Mapping[str, object]
    query: Mapping[str, object]
    headers: Mapping[str, str]
    body: object
    content: Content
    again: bool
    timeout: float


class AsyncTransport:
    """The connections to one server."""

    def __init__(self, address: Address, patience: Patience) -> None:
        self.address = address
        self.patience = patience
        self._http: httpx2.AsyncClient | None = None

    async def aclose(self) -> None:
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    # -- four ways to ask ------------------------------------------------------------------------------------------

    async def ask(  # noqa: PLR0913  what a request consists of
        self,
        method: str,
        path: str,
        *,
        at: Mapping[str, object] | None = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        content: Content | None = None,
        again: bool | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The answer's JSON; None where it has no body. `body` is sent as JSON, `content` as it is."""
        attempts = self.attempts(method, headers, content, again)
        while True:
            try:
                response = await self._send(
                    self._request(attempts, method, path, at, query, headers, body, content, timeout)
                )
                try:
                    until = attempts.until if content is None else time.monotonic() + self.patience.deadline
                    answer = await self._read(response, until)
                finally:
                    await response.aclose()
                return _decode_json(answer)
            except ClientError as error:
                pause = attempts.pause_after(error)
            await async_sleep(pause)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        attempts: Attempts,
        at: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> "AsyncIterator[httpx2.Response]":
        """An answer whose head has arrived; its body is read by `pieces`, and may take any time."""
        each = timeout or self.patience.timeout
        response = None
        while response is None:
            try:
                response = await self._send(self._request(attempts, method, path, at, None, headers, None, None, each))
            except ClientError as error:
                await async_sleep(attempts.pause_after(error))
        try:
            yield response
        finally:
            await response.aclose()

    async def pages(
        self,
        kind: type[R],
        path: str,
        *,
        at: Mapping[str, object] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> AsyncIterator[R]:
        """All items of a list, page after page."""
        after: object = None
        while True:
            page = await self.ask("GET", path, at=at, query={**(query or {}), "after": after})
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise BadAnswer("The server's answer is not a page of a list: is the address that of Penstock?")
            for item in page["items"]:
                yield decode(kind, item)
            if page.get("next") is None or page["next"] == after:
                return
            after = page["next"]

    async def whole(self, path: str, at: Mapping[str, object]) -> bytes:
        """The body of a GET, which may take as long as it goes on; all of it is asked for again when it breaks off."""
        attempts = self.attempts("GET")
        while True:
            try:
                async with self.stream("GET", path, at=at, attempts=attempts) as response:
                    return b"".join([piece async for piece in self.pieces(response)])
            except Unreachable as error:
                pause = attempts.pause_after(error)
            await async_sleep(pause)

    # -- below them -------------------------------------------------------------------------------------------------

    def attempts(
        self,
        method: str,
        headers: Mapping[str, str] | None = None,
        content: Content | None = None,
        again: bool | None = None,
    ) -> Attempts:
        """The attempts of a request; `again` overrides whether it may be repeated."""
        sendable = content is None or content.repeatable
        if again is None:
            again = method in SAFE or "Idempotency-Key" in (headers or {})
        return Attempts(self.patience, repeatable=again and sendable)

    async def pieces(self, response: "httpx2.Response") -> AsyncIterator[bytes]:
        """The body as it arrives; each piece within the timeout."""
        import httpx2

        try:
            async for piece in response.aiter_raw():
                yield piece
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None

    async def lines(self, response: "httpx2.Response") -> AsyncIterator[str]:
        """The same for text, line by line."""
        import httpx2

        try:
            async for line in response.aiter_lines():
                yield line
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None

    def _request(  # noqa: PLR0913, PLR0917
        self,
        attempts: Attempts,
        method: str,
        path: str,
        at: Mapping[str, object] | None,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str] | None,
        body: object,
        content: Content | None,
        timeout: float | None,
    ) -> "httpx2.Request":
        import_library()
        import httpx2

        sent = dict(headers or {})
        raw: bytes | AsyncIterator[bytes] | None = None
        if body is not None:
            sent["Content-Type"], raw = "application/json", json.dumps(body).encode()
        elif content is not None:
            raw = content.async_pieces()
            if content.size is not None:
                sent["Content-Length"] = str(content.size)
        connect, each = attempts.timeout()
        if timeout is not None or content is not None:  # a file may take longer to send than a question to answer
            each = timeout or self.patience.timeout
        return self._open().build_request(
            method,
            self.address.url + expand(path, at or {}),
            params=query_of(query or {}) or None,
            headers=sent,
            content=raw,
            timeout=httpx2.Timeout(each, connect=connect),
        )

    async def _send(self, request: "httpx2.Request") -> "httpx2.Response":
        """A successful answer, its body not read yet; any other is an error."""
        import httpx2

        try:
            response = await self._open().send(request, stream=True)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        if response.is_success:
            return response
        try:
            body = await self._read(response, time.monotonic() + self.patience.timeout)
        finally:
            await response.aclose()
        raise read_problem(response.status_code, response.headers, body)

    async def _read(self, response: "httpx2.Response", until: float) -> bytes:
        body = bytearray()
        async for piece in self.pieces(response):
            body += piece
            if time.monotonic() > until:
                raise Unreachable(f"{self.address.url} did not finish its answer in time.")
        return bytes(body)

    def _open(self) -> "httpx2.AsyncClient":
        if self._http is None:
            import httpx2

            headers = {"User-Agent": f"penstock-client/{__version__}", "Accept-Encoding": "identity"}
            if self.address.key is not None:
                headers["Authorization"] = f"Bearer {self.address.key}"
            self._http = httpx2.AsyncClient(
                headers=headers,
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=100, keepalive_expiry=IDLE),
                timeout=self.patience.timeout,
                trust_env=not self.address.is_loopback,  # else a proxy would be asked for this machine
                verify=self.address.needs_certificates,
            )
        return self._http

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = str(error) or type(error).__name__
        return Unreachable(
            f"{self.address.url} cannot be reached, or its answer broke off ({reason}). Is Penstock running there?"
        )


class AsyncResource:
    """A part of the API."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _ask(self, kind: type[R], method: str, path: str, **request: Unpack[RequestOptions]) -> R:
        return decode(kind, await self._transport.ask(method, path, **request))

    async def _ask_list(self, kind: type[R], path: str, **request: Unpack[RequestOptions]) -> list[R]:
        return decode_list(kind, await self._transport.ask("GET", path, **request))


def import_library() -> None:
    """The error if the library is missing."""
    try:
        import httpx2  # noqa: F401
    except ImportError:
        raise NotInstalled("The client needs httpx2: pip install 'penstock[client]'.") from None


def _decode_json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        raise BadAnswer("The server's answer is not JSON: is the address that of Penstock?") from None
