"""Several files one behind the other in one: each is seen as a file of its own, without a copy."""

import io
from typing import BinaryIO

from typing_extensions import override


class Slice(io.RawIOBase):
    """Bytes `start` to `start + size` of a file. It has its own place in them; many may share one file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._at

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise ValueError("a place before the beginning")
        self._at = origin + offset
        return self._at

    @override
    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._size - self._at))
        if not length:
            return 0
        self._file.seek(self._start + self._at)
        content = self._file.read(length)
        view[: len(content)] = content
        self._at += len(content)
        return len(content)
