"""multipart/form-data, read as it comes: a file's bytes pass through, and are never gathered in memory or on disk.

The parser is pushed, its user pulls: what the parser finds in one piece of the body waits in a short list until it is asked
for, and only then the next piece is received. A file therefore has to be read, or skipped, before the next part can be.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from penstock.errors import BadRequest, BadValue

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of what we refuse with a sentence

PARTS = 10_000
FIELD = 100_000  # bytes of a field that is not a file
HEADER = 8 * 1024  # a name of 5,000 characters shall get its own answer


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
        """Each part; what was not read of it when the next one is asked for is skipped."""
        count = 0
        while (found := await self._next()) is not self._END:
            if isinstance(found, Part):
                count += 1
                if count > PARTS:
                    raise BadRequest(f"The form has more than {PARTS:,} parts.")
                yield found

    async def content(self) -> AsyncIterator[bytes]:
        """The bytes of the part that came last."""
        while isinstance(found := await self._next(), bytes):
            yield found

    async def text(self, part: Part) -> str:
        """A field's value."""
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
