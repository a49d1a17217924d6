"""What a box tells its parent about a task: parts, progress, and in the end a result or an error, all as frames."""

import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.errors import JobFailure
from penstock.extraction.box import wire


class Reply:
    """What a task may say before it returns."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._told_at = 0.0

    def begin(self, token: str) -> None:
        """From here on it is about this task: what came before is not taken for it."""
        self._send(wire.BEGIN, token.encode())

    def part(self, header: dict[str, Any], pieces: Iterable[bytes]) -> None:
        """Send a file that was inside of the document. What `pieces` raises goes on; the parent drops that part."""
        self._send(wire.PART, wire.encode(header))
        try:
            for piece in pieces:
                view = memoryview(piece)
                for start in range(0, len(view), wire.PIECE_SIZE):
                    self._send(wire.PIECE, view[start : start + wire.PIECE_SIZE])
        except Exception as error:
            self._send(wire.PART_BROKEN, wire.encode({"message": wire.plain(str(error))}))
            raise
        self._send(wire.PART_END)

    def progress(self, done: int, total: int) -> None:
        """Tell how far it is; more often than every 50 ms is not told."""
        now = time.monotonic()
        if now - self._told_at >= 0.05 or done >= total:
            self._told_at = now
            self._send(wire.PROGRESS, wire.encode({"done": done, "total": total}))

    def result(self, value: Any) -> None:
        """Long lists go ahead in batches, so that the parent never decodes much at once."""
        for body in _batches(value) if isinstance(value, dict) else ():
            self._send(wire.MORE, body)
        self._send(wire.RESULT, wire.encode(value))

    def error(self, error: BaseException) -> None:
        self._send(wire.ERROR, wire.encode(describe(error)))

    def _send(self, kind: bytes, body: bytes | memoryview = b"") -> None:
        self._connection.sendall(wire.HEADER.pack(kind, len(body)))
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
            encoded = wire.encode(item)
            batch.append(encoded)
            size += len(encoded)
            if size >= wire.BATCH_SIZE:
                yield _batch(key, batch)
                batch, size = [], 0
        if batch:
            yield _batch(key, batch)


def _batch(key: str, items: list[bytes]) -> bytes:
    return b"{%s:[%s]}" % (wire.encode(key), b",".join(items))


def describe(error: BaseException) -> dict[str, str]:
    """An error as text: its name if the parent knows it, a sentence, and where it came from (for the log)."""
    import traceback  # slow to load, and most documents are well

    trace = "".join(traceback.format_exception(error))[-8000:]
    known = next((one.__name__ for one in type(error).__mro__ if one.__name__ in wire.FAILURES), None)
    if isinstance(error, JobFailure) and known is not None:
        return {"error": known, "message": wire.plain(str(error)), "trace": ""}
    if isinstance(error, MemoryError):
        sentence = "Reading it needs more memory than a reader may have (extraction.memory)."
        return {"error": "TooMuch", "message": sentence, "trace": trace}
    if isinstance(error, RecursionError):
        return {"error": "Corrupt", "message": "It is nested too deeply to be read.", "trace": trace}
    text = wire.plain(f"{type(error).__name__}: {error}", 240)
    if isinstance(error, ImportError):  # ours is incomplete, not the document
        return {"error": "Transient", "message": f"A reader cannot be loaded: {text}", "trace": trace}
    return {"error": "Corrupt", "message": f"The reader failed on it: {text}", "trace": trace}
