"""Upload bodies: a file by its path, bytes, an open file, or pieces that are made as they go.

A path and bytes can be sent again after a failure, and an open file that can be rewound, too; pieces cannot. Files are
read in pieces, for the async client in a thread. A file whose length changes while it is sent is an error of its own: the
announced length would not hold.
"""

import os
import stat
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol, cast

from penstock.client.errors import SourceChanged
from penstock.client.transport import async_off_loop

PIECE = 256 * 2**10

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]
AsyncSource = Source | AsyncIterable[bytes]


class Content(Protocol):
    """Something to send."""

    size: int | None
    name: str  # where the source has one
    repeatable: bool

    def pieces(self) -> Iterator[bytes]: ...

    def async_pieces(self) -> AsyncIterator[bytes]: ...


def content_of(source: AsyncSource) -> Content:
    """The content of any source; a text is the path of a file."""
    match source:
        case bytes() | bytearray() | memoryview():
            return Memory(bytes(source))
        case str() | os.PathLike():
            return File(Path(source))
        case _ if hasattr(source, "read"):
            return OpenFile(cast("BinaryIO", source))
        case AsyncIterable():
            return AsyncPieces(source)
        case Iterable():
            return Pieces(source)
    raise TypeError(
        f"{type(source).__name__} cannot be sent: give a path, bytes, a file that is open in rb, or pieces."
    )


class Memory:
    """Bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size: int | None = len(content)
        self.name = ""
        self.repeatable = True

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self._content), PIECE):
            yield self._content[start : start + PIECE]

    async def async_pieces(self) -> AsyncIterator[bytes]:
        for piece in self.pieces():
            yield piece


class Pieces:
    """An iterator, which can be asked once."""

    def __init__(self, made: Iterable[bytes]) -> None:
        self._made = made
        self.size: int | None = None
        self.name = ""
        self.repeatable = False

    def pieces(self) -> Iterator[bytes]:
        rest = iter(self._made)
        while (piece := _gather(rest)) is not None:
            yield piece

    async def async_pieces(self) -> AsyncIterator[bytes]:
        rest = self.pieces()
        while (piece := await async_off_loop(next, rest, None)) is not None:
            yield piece


def _gather(rest: Iterator[bytes]) -> bytes | None:
    """Join small pieces that arrive together: each costs a system call, and here a thread."""
    gathered: list[bytes] = []
    size, until = 0, time.monotonic() + 0.1
    for piece in rest:
        gathered.append(piece)
        size += len(piece)
        if size >= PIECE or time.monotonic() > until:
            break
    return b"".join(gathered) if gathered else None


class AsyncPieces(Pieces):
    """The same of an async iterator; the sync client does not take it."""

    def __init__(self, made: AsyncIterable[bytes]) -> None:
        super().__init__(())
        self._coming = made

    def pieces(self) -> Iterator[bytes]:
        raise TypeError("An async iterator can be sent by the AsyncClient alone.")

    async def async_pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._coming:
            yield piece


class OpenFile(Pieces):
    """A file that the caller has opened, from its present position."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(())
        self._file = file
        name = getattr(file, "name", "")
        self.name = PurePath(name).name if isinstance(name, str) else ""
        self.repeatable = bool(getattr(file, "seekable", lambda: False)())
        if self.repeatable:
            self._start = file.tell()
            self.size = file.seek(0, os.SEEK_END) - self._start
            file.seek(self._start)

    def pieces(self) -> Iterator[bytes]:
        if self.repeatable:
            self._file.seek(self._start)
        yield from _read(self._file, self.size, self.name)


class File(Pieces):
    """A file by its path, opened for each sending."""

    def __init__(self, path: Path) -> None:
        super().__init__(())
        self._path = path
        self.name = path.name
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(f"{path} is a folder: send its files one by one.")
        self.size = found.st_size if stat.S_ISREG(found.st_mode) else None  # a pipe has no length
        self.repeatable = self.size is not None

    def pieces(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from _read(file, self.size, self.name)


def _read(file: BinaryIO, size: int | None, name: str) -> Iterator[bytes]:
    count = 0
    while piece := file.read(PIECE):
        if not isinstance(piece, bytes):
            raise TypeError("The file is open for text: open it with rb.")
        count += len(piece)
        if size is not None and count > size:
            break
        yield piece
    if size is not None and count != size:
        raise SourceChanged(f"{name or 'The file'} had {size} bytes and has changed while it was sent: send it again.")


class Form(Pieces):
    """Several files as multipart/form-data."""

    def __init__(self, files: Mapping[str, Content], boundary: str) -> None:
        super().__init__(())
        self._files = files
        self._boundary = boundary
        self.repeatable = all(each.repeatable for each in files.values())
        self.type = f"multipart/form-data; boundary={boundary}"

    def pieces(self) -> Iterator[bytes]:
        for name, content in self._files.items():
            yield self._head(name)
            yield from content.pieces()
            yield b"\r\n"
        yield self._end

    async def async_pieces(self) -> AsyncIterator[bytes]:
        for name, content in self._files.items():
            yield self._head(name)
            async for piece in content.async_pieces():
                yield piece
            yield b"\r\n"
        yield self._end

    def _head(self, name: str) -> bytes:
        # As browsers write it: these three characters in percent form, and nothing else.
        quoted = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        disposition = f'Content-Disposition: form-data; name="file"; filename="{quoted}"'
        return f"--{self._boundary}\r\n{disposition}\r\n\r\n".encode()

    @property
    def _end(self) -> bytes:
        return f"--{self._boundary}--\r\n".encode()
