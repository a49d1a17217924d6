"""The protocol between a worker and a sandbox process: frames of one letter, a length, and JSON or bytes.

The parent sends SETUP once and then one TASK at a time. The child answers each with BEGIN, any number of PART, PROGRESS and
MORE frames, and RESULT or ERROR. `Reply` is the child's side of a task; the parent's is in exchange.py.
"""

import json
import re
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.errors import (
    Corrupt,
    Encrypted,
    JobFailure,
    NothingInside,
    ResourceLimit,
    Suspicious,
    TooMuch,
    Transient,
    Unreadable,
    Unsupported,
)

HEADER = struct.Struct("!cI")

SETUP, TASK = b"S", b"T"  # from the parent
HELLO, BEGIN, PROGRESS, PART, PIECE, PART_END, PART_BROKEN = b"H", b"N", b"G", b"P", b"B", b"E", b"A"
MORE, RESULT, ERROR = b"M", b"R", b"X"  # MORE: items of the result's lists, so that no frame becomes large

PIECE_SIZE = 2**17  # fits into the buffer of a Unix socket
BATCH_SIZE = 2**18  # of items in a MORE; its JSON holds the parent's loop for about a millisecond
SMALL = 2**16
LIMITS = {
    HELLO: SMALL,
    BEGIN: SMALL,
    PROGRESS: SMALL,
    PART: SMALL,
    PIECE: 2**20,
    PART_END: 0,
    PART_BROKEN: SMALL,
    MORE: 2**28,
    RESULT: 2**28,
    ERROR: SMALL,
}

FAILURES: dict[str, type[JobFailure]] = {
    known.__name__: known
    for known in (Encrypted, Corrupt, Unsupported, Suspicious, TooMuch, NothingInside, Unreadable, ResourceLimit)
} | {"Transient": Transient}  # of a child whose installation is incomplete: not the document's fault

_PATH = re.compile(r"(?<![\w/])~?(?:/[\w.+@-]+){2,}/?")


def pack(kind: bytes, body: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(body)) + body


def encode(value: Any) -> bytes:
    """Lone surrogates become `?`; NaN is a ValueError, because JSON has none."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def decode(body: bytes | bytearray) -> Any:
    """ValueError or RecursionError for what is not JSON."""
    return json.loads(body)


def plain(text: str, most: int = 300) -> str:
    """One line for a person: no control characters, no paths of this machine."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    printable = "".join(character if character.isprintable() else " " for character in line[: 4 * most])
    short = _PATH.sub("…", printable).strip()
    return short if len(short) <= most else short[: most - 1] + "…"


class Reply:
    """The answer to one task: parts and progress while it runs, then a result or an error."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._told_at = 0.0

    def begin(self, token: str) -> None:
        """Mark the first frame of this task: what came before belongs to another one."""
        self._send(BEGIN, token.encode())

    def part(self, header: dict[str, Any], pieces: Iterable[bytes]) -> None:
        """Send a file from inside the document. An error of `pieces` is raised again; the parent then drops the part."""
        self._send(PART, encode(header))
        try:
            for piece in pieces:
                view = memoryview(piece)
                for start in range(0, len(view), PIECE_SIZE):
                    self._send(PIECE, view[start : start + PIECE_SIZE])
        except Exception as error:
            self._send(PART_BROKEN, encode({"message": plain(str(error))}))
            raise
        self._send(PART_END)

    def progress(self, done: int, total: int) -> None:
        """Report progress, at most every 50 ms."""
        now = time.monotonic()
        if now - self._told_at >= 0.05 or done >= total:
            self._told_at = now
            self._send(PROGRESS, encode({"done": done, "total": total}))

    def result(self, value: Any) -> None:
        """Send the value; long lists first and in batches, so that the parent never decodes much at once."""
        for body in _batches(value) if isinstance(value, dict) else ():
            self._send(MORE, body)
        self._send(RESULT, encode(value))

    def error(self, error: BaseException) -> None:
        self._send(ERROR, encode(describe(error)))

    def _send(self, kind: bytes, body: bytes | memoryview = b"") -> None:
        self._connection.sendall(HEADER.pack(kind, len(body)))
        if body:
            self._connection.sendall(body)


def _batches(result: dict[str, Any]) -> Iterator[bytes]:
    """Take the items of lists out of the result, a batch at a time; the rest stays in it."""
    for key, items in result.items():
        if not isinstance(items, list | tuple) or len(items) < 2:
            continue
        result[key] = []
        batch: list[bytes] = []
        size = 0
        for item in items:
            encoded = encode(item)
            batch.append(encoded)
            size += len(encoded)
            if size >= BATCH_SIZE:
                yield _batch(key, batch)
                batch, size = [], 0
        if batch:
            yield _batch(key, batch)


def _batch(key: str, items: list[bytes]) -> bytes:
    return b"{%s:[%s]}" % (encode(key), b",".join(items))


def describe(error: BaseException) -> dict[str, str]:
    """An error as text: its name if the parent knows it, a sentence, and where it came from (for the log)."""
    import traceback  # slow to load, and most documents have no errors

    trace = "".join(traceback.format_exception(error))[-8000:]
    known = next((one.__name__ for one in type(error).__mro__ if one.__name__ in FAILURES), None)
    if isinstance(error, JobFailure) and known is not None:
        return {"error": known, "message": plain(str(error)), "trace": ""}
    if isinstance(error, MemoryError):
        sentence = "Reading the file needs more memory than a reader may use (extraction.memory)."
        return {"error": "TooMuch", "message": sentence, "trace": trace}
    if isinstance(error, RecursionError):
        return {"error": "Corrupt", "message": "The file is nested too deeply to be read.", "trace": trace}
    text = plain(f"{type(error).__name__}: {error}", 240)
    if isinstance(error, ImportError):  # our installation is incomplete, not the document
        return {"error": "Transient", "message": f"A reader cannot be loaded: {text}", "trace": trace}
    return {"error": "Corrupt", "message": f"The reader failed on this file: {text}", "trace": trace}
