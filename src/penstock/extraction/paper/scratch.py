"""PDFs on their way out of a box: written into a file without a name, then sent in pieces."""

import errno
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

from penstock.errors import ResourceLimit, TooMuch

PIECE = 2**17


class Reply(Protocol):
    """What a task sends while it runs."""

    def part(self, header: dict[str, Any], pieces: Iterable[bytes]) -> None: ...


@contextmanager
def scratch_file() -> Iterator[BinaryIO]:
    """Where a box may write; a file that outgrows its room is `TooMuch`."""
    try:
        with tempfile.TemporaryFile(prefix="paper-") as file:
            yield file
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise TooMuch("As a PDF it is larger than what a reader may write (extraction.memory).") from error
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ResourceLimit("The folder for temporary files is full: its PDF cannot be written.") from error
        raise


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece
