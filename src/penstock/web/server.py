"""The HTTP server of a process: the listening socket, uvicorn on it, the lag of its event loop; request times and traces.

The socket is bound before anything else starts: a port in use is one sentence and not a traceback from a half-started
process. Under `penstock up` the parent binds it and hands it down, so that a restarted API process loses no connection.
"""

import asyncio
import contextlib
import errno
import ipaddress
import json
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import psutil
import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock import telemetry
from penstock.access import any_usable_key
from penstock.database import Session
from penstock.errors import BadSetting, PortTaken
from penstock.telemetry import extract_trace, is_traced, span

TICK = 0.1  # seconds
BLOCKED_AFTER = 1.0  # seconds that a tick may be late
REMEMBERED = 10.0  # seconds for which a blocked loop is reported
QUIET = ("/health/", "/metrics")  # polled every few seconds
# FastAPI's own spans and logs, which older versions do not have, would hold addresses with their queries, and errors with their
# messages, unmasked.
UNTRACED: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False}


def listen(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortTaken(_taken_sentence(error, port)) from error
        raise BadSetting(f"Cannot listen on {host}:{port} ({error.strerror}): check api.host and api.port.") from error
    # Connections inherit it. asyncio does not set it by itself here, and each answer would wait 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.set_inheritable(True)
    return listener


async def refuse_unguarded(session: Session, host: str) -> None:
    """Refuse to listen for other machines without a usable key: they need one."""
    if not is_loopback(host) and not await any_usable_key(session):
        raise BadSetting(
            f"api.host is {host}, which other machines can reach, but no API key exists: create one with "
            "`penstock keys create NAME --scope admin`, or use 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve(app: FastAPI, listener: socket.socket, stopping: asyncio.Event) -> None:
    """Answer requests until `stopping` is set; then finish those under way, and end streams that have no end."""
    server = _Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            ws="none",
        )
    )
    readiness = getattr(app.state, "readiness", None)
    measuring = None if readiness is None else asyncio.create_task(readiness.loop_lag.measure(), name="loop lag")
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    if (changes := getattr(app.state, "changes", None)) is not None:
        changes.stop()
    stopped.cancel()
    if measuring is not None:
        measuring.cancel()
    await serving


class _Server(uvicorn.Server):
    """Signals belong to the process, not to its web server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(HttpToolsProtocol):
    """Refuses bytes that are not HTTP in the form of all other errors."""

    @override
    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"type": "about:blank", "title": "Bad Request", "status": 400, "detail": msg}).encode()
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()


def _taken_sentence(error: OSError, port: int) -> str:
    if error.errno == errno.EACCES:
        return f"Port {port} is reserved for root: choose one above 1023 with --port."
    return f"Port {port} is in use{_user_of(port)}: stop that, or choose another one with --port."


def _user_of(port: int) -> str:
    """The process that listens there, as far as it may be seen."""
    try:
        for connection in psutil.net_connections("tcp"):
            listening = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if listening and connection.pid:
                return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        return ""
    return ""


# -- the lag of the event loop --------------------------------------------------------------------------------------


class LoopLag:
    """The delay of the event loop in the last seconds: readiness reports a loop that something has blocked."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque()  # when, and by how much
        self._ticked_at = float("inf")  # not measured yet

    async def measure(self) -> None:
        self._ticked_at = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            self._note()

    def _note(self) -> None:
        now = time.monotonic()
        late = now - self._ticked_at - TICK
        self._ticked_at = now
        if late > BLOCKED_AFTER:
            self._late.append((now, late))
        while self._late and now - self._late[0][0] > REMEMBERED:
            self._late.popleft()

    @property
    def worst(self) -> float:
        """Seconds that the loop was blocked at most, of late. A request may be served before the tick that was late."""
        pending = time.monotonic() - self._ticked_at - TICK
        return max([late for _, late in self._late] + [pending if pending > BLOCKED_AFTER else 0.0])

    @property
    def blocked(self) -> str:
        """The beginning of a sentence about the blockage; empty if there was none."""
        return f"The event loop was blocked for {self.worst:.1f} s" if self.worst > BLOCKED_AFTER else ""


# -- request times ------------------------------------------------------------------------------------------------------

request_seconds = telemetry.histogram(
    "penstock_http_request_seconds",
    "Seconds until an answer of the API began, by route; status is 2xx, 3xx, 4xx or 5xx",
    ("route", "method", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})  # a client may make up others


class RequestTimes:
    """Measures each request until its answer begins: a stream or a download may go on for long."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(QUIET):
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                where = "other" if route is None else route.path  # not the path: names of documents are in it
                method = scope["method"] if scope["method"] in METHODS else "other"
                status = f"{message['status'] // 100}xx"
                request_seconds.labels(where, method, status).observe(time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, send_measured)


# -- tracing --------------------------------------------------------------------------------------------------------


class Tracing:
    """A span around each request, below the one that its headers name: the jobs that it enqueues belong to the same trace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_traced() or scope["path"].startswith(QUIET):
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        with extract_trace(dict(Headers(scope=scope))), span(method, **{"http.request.method": method}) as current:

            async def send_noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    current.set_attribute("http.response.status_code", message["status"])
                    if (route := scope.get("route")) is not None:  # not the path: names of documents are in it
                        current.update_name(f"{method} {route.path}")
                        current.set_attribute("http.route", route.path)
                await send(message)

            await self._app(scope, receive, send_noted)
