"""Request bodies: their largest size, their slowest pace, and forms.

Every body is counted as it arrives. Routes that stream an upload raise the cap, all others get at most 1 MB. A client that
sends nothing for a while, or almost nothing for long, gets 408. An answer before the end of the body closes the connection,
but only after reading on for a moment: closing at once would reset the connection, and the client would not see the answer.

A form (multipart/form-data) is parsed as it arrives: the bytes of a file pass through, and are never collected in memory or on
disk.
"""

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import BadRequest, BadValue, BodyTooLarge
from penstock.settings import Bytes

USUAL = 2**20
IDLE = 30.0  # seconds between two pieces
GRACE = 60.0  # seconds of waiting after which the rate counts
SLOWEST = 1024  # bytes per second of waiting
LINGER = 2.0  # seconds for which the body of a refused request is still read
SMALL = 2**16  # bytes of an unread body that are read to keep the connection
PARTS = 10_000  # of a form
FIELD = 100_000  # bytes of a field that is not a file
HEADER = 8 * 1024  # bytes: a name of 5,000 characters shall get its own answer

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it logs what is refused with a sentence anyway


class BodyMeter:
    """Counts one body, and refuses it when it is too large or too slow."""

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
        """Read and discard the rest of a body, up to a bound."""
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
            raise HTTPException(408, f"No data arrived for {IDLE:.0f} s: send the request again.") from None
        self._waited += time.monotonic() - began
        if self._waited > GRACE and self.count < self._waited * SLOWEST:
            raise HTTPException(
                408, f"The body arrives with less than {SLOWEST} bytes per second: use a faster connection."
            )
        return message


class RequestBodies:
    """Meters each request's body, and ends the connection where one was not read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        meter = scope["penstock.body"] = BodyMeter(scope, receive)
        lingering = False

        async def send_after(message: Message) -> None:
            nonlocal lingering
            if message["type"] == "http.response.start" and not meter.over:
                if not meter.expected:  # a client that waits for a 100 has sent nothing yet, and shall not begin
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


def meter_of(request: Request) -> BodyMeter:
    meter: BodyMeter = request.scope["penstock.body"]
    return meter


async def pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body as it arrives, up to a cap of its own."""
    meter = meter_of(request)
    meter.most = sys.maxsize
    async for piece in request.stream():
        if meter.count > most:
            raise BodyTooLarge(_too_large(meter.count, most))
        if piece:
            yield piece
    if meter.declared is not None and meter.count != meter.declared:
        raise BadRequest(f"The body has {meter.count} bytes instead of the announced {meter.declared}: send it again.")
    await asyncio.sleep(0)  # a body longer than announced has ended the connection by now
    if await request.is_disconnected():
        raise ClientDisconnect


def check_head(request: Request, most: int = sys.maxsize) -> int | None:
    """The announced size; refuses what cannot be accepted before anything is received."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "Content-Encoding is not supported: send the file's own bytes.")
    if "content-range" in request.headers:
        raise BadRequest("Content-Range is not supported: send the whole document.")
    size = meter_of(request).declared
    if size is not None and size > most:
        raise BodyTooLarge(_too_large(size, most))
    return size


def _too_large(size: int, most: int) -> str:
    return f"The body has {Bytes(size)} or more, and the limit is {Bytes(most)}: send a smaller one."


# -- forms ----------------------------------------------------------------------------------------------------------


@dataclass
class Part:
    """A field or, if it has a file name, a file."""

    name: str = ""
    file_name: str | None = None
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)


class Form:
    """The parts of one body, in their order."""

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise BadRequest("The body is not multipart/form-data with a boundary. For a single file, PUT its bytes.")
        self._body = body
        self._found: deque[Part | bytes | None] = deque()  # a part begins, bytes of it, and its end
        self._part = Part()
        self._ended = False
        try:
            self._parser = self._make_parser(boundary)
        except FormParserError as error:
            raise BadRequest(f"The form cannot be read: {error}.") from None

    async def parts(self) -> AsyncIterator[Part]:
        """Each part; the unread rest of a part is skipped."""
        count = 0
        while (found := await self._next()) is not self._END:
            if isinstance(found, Part):
                count += 1
                if count > PARTS:
                    raise BadRequest(f"The form has more than {PARTS:,} parts.")
                yield found

    async def content(self) -> AsyncIterator[bytes]:
        """The bytes of the current part."""
        while isinstance(found := await self._next(), bytes):
            yield found

    async def text(self, part: Part) -> str:
        value = bytearray()
        async for piece in self.content():
            value += piece
            if len(value) > FIELD:
                raise BadValue(f"The field {part.name!r} has more than {FIELD:,} bytes.")
        return _decode(bytes(value), f"The field {part.name!r}")

    # -- between the parser and its user --------------------------------------------------------------------------

    _END = object()

    async def _next(self) -> object:
        while not self._found:
            piece = await anext(self._body, None)
            if piece is None:
                if not self._ended:
                    raise BadRequest("The form ends in the middle of a part. Send it again.")
                return self._END
            try:
                self._parser.write(piece)
            except FormParserError as error:
                raise BadRequest(f"The form cannot be read: {error}.") from None
        return self._found.popleft()

    def _make_parser(self, boundary: bytes) -> MultipartParser:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda text, start, stop: self._part._header.extend(text[start:stop]),
                "on_header_value": lambda text, start, stop: self._part._value.extend(text[start:stop]),
                "on_header_end": self._take_header,
                "on_headers_finished": lambda: self._found.append(self._part),
                "on_part_data": lambda text, start, stop: self._found.append(bytes(text[start:stop])),
                "on_part_end": lambda: self._found.append(None),
                "on_end": self._take_end,
            },
            max_header_size=HEADER,
        )

    def _begin(self) -> None:
        self._part = Part()

    def _take_header(self) -> None:
        part = self._part
        if part._header.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(part._value).decode("latin-1"))
            part.name = _decode(options.get(b"name", b""), "The name of a field")
            if b"filename" in options:
                part.file_name = _unquote(_decode(options[b"filename"], "The name of a file"))
        part._header.clear()
        part._value.clear()

    def _take_end(self) -> None:
        self._ended = True


def _decode(value: bytes, what: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadValue(f"{what} is not UTF-8.") from None


def _unquote(name: str) -> str:
    """Browsers and others write these three characters in percent form, and nothing else."""
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
