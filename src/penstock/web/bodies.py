"""The bodies of requests: how much may come, how slowly, and what happens to one that nobody reads.

Every request's body is counted as it comes; routes that stream an upload raise the cap, all others get at most 1 MB. A
client that sends nothing for a while, or almost nothing for long, gets 408. An answer that is given before the whole body
was read ends the connection, but gently: the client is listened to for a moment, because closing at once would reset the
connection and take the answer with it.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import BadRequest, BodyTooLarge
from penstock.settings.values import Bytes

USUAL = 2**20
IDLE = 30.0  # seconds between two pieces
GRACE = 60.0  # seconds of waiting after which the rate counts
SLOWEST = 1024  # bytes per second of waiting
LINGER = 2.0  # seconds for which a refused sender is still listened to
SMALL = 2**16  # bytes of an unread body that are taken in to keep the connection


class Meter:
    """What has come of one body."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "")
        self.declared = int(declared) if declared.isdecimal() else None
        self.expected = "expect" in headers
        self.over = not self.declared and "transfer-encoding" not in headers
        self.most = USUAL
        self.count = 0
        self._waited = 0.0
        self._receive = receive

    async def receive(self) -> Message:
        """The next message; while the body is under way, with the limits."""
        if self.over:
            return await self._receive()
        if self.declared is not None and self.declared > self.most:
            raise HTTPException(413, _too_large(self.declared, self.most))
        message = await self._wait()
        self._count(message)
        if self.count > self.most:
            raise HTTPException(413, _too_large(self.count, self.most))
        return message

    async def drain(self, most: int, within: float) -> None:
        """Take in what nobody wants, as far as it is worth it."""
        try:
            async with asyncio.timeout(within):
                stop = self.count + most
                while not self.over and self.count < stop:
                    self._count(await self._receive())
        except TimeoutError:
            return

    def _count(self, message: Message) -> None:
        self.count += len(message.get("body", b""))
        self.over = not message.get("more_body", False)

    async def _wait(self) -> Message:
        began = time.monotonic()
        try:
            async with asyncio.timeout(IDLE):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"Nothing came for {IDLE:.0f} s. Send the request again.") from None
        self._waited += time.monotonic() - began
        if self._waited > GRACE and self.count < self._waited * SLOWEST:
            raise HTTPException(408, f"The body comes with less than {SLOWEST} bytes per second.")
        return message


class Bodies:
    """Meters each request's body, and ends the connection where one was not read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        meter = scope["penstock.body"] = Meter(scope, receive)
        lingering = False

        async def send_after(message: Message) -> None:
            nonlocal lingering
            if message["type"] == "http.response.start" and not meter.over:
                if not meter.expected:  # one who waits for a 100 has sent nothing yet, and shall not begin
                    await meter.drain(SMALL, 0.1)
                lingering = not meter.over
                if lingering:
                    MutableHeaders(scope=message)["Connection"] = "close"
            if lingering and message["type"] == "http.response.body" and not message.get("more_body", False):
                await send({**message, "more_body": True})
                if not meter.expected or meter.count:
                    await meter.drain(2**40, LINGER)
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        await self._app(scope, meter.receive, send_after)


def meter_of(request: Request) -> Meter:
    meter: Meter = request.scope["penstock.body"]
    return meter


async def pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body, as it comes, up to a cap of its own; one whose length was announced and is too much is not begun."""
    meter = meter_of(request)
    meter.most = sys.maxsize
    async for piece in request.stream():
        if meter.count > most:
            raise BodyTooLarge(_too_large(meter.count, most))
        if piece:
            yield piece
    if meter.declared is not None and meter.count != meter.declared:
        raise BadRequest(f"The body has {meter.count} bytes, and {meter.declared} were announced.")
    await asyncio.sleep(0)  # a body longer than announced has ended the connection by now
    if await request.is_disconnected():
        raise ClientDisconnect


def check_head(request: Request, most: int = sys.maxsize) -> int | None:
    """The announced size; before anything is received, what cannot be taken is refused."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "A body with a Content-Encoding is not taken: send the file's own bytes.")
    if "content-range" in request.headers:
        raise BadRequest("A part of a document is not taken (Content-Range): send all of it.")
    size = meter_of(request).declared
    if size is not None and size > most:
        raise BodyTooLarge(_too_large(size, most))
    return size


def _too_large(size: int, most: int) -> str:
    return f"The body has {Bytes(size)} or more, and {Bytes(most)} are taken at most."
