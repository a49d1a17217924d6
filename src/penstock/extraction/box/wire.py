"""What goes over the socket between a worker and a box: frames of one letter, a length, and JSON or bytes.

The parent trusts nothing of it: each letter has its limit, and errors are names in a table. Nothing is ever unpickled.
The document itself goes to the child as a file descriptor, beside the task's frame.
"""

import json
import re
import struct
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
} | {"Transient": Transient}  # of a child that lacks something: not the document's fault

_PATH = re.compile(r"(?<![\w/])~?(?:/[\w.+@-]+){2,}/?")


def pack(kind: bytes, body: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(body)) + body


def encode(value: Any) -> bytes:
    """Half a character cannot be sent; NaN is no JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def decode(body: bytes | bytearray) -> Any:
    """ValueError or RecursionError for what is no JSON."""
    return json.loads(body)


def plain(text: str, most: int = 300) -> str:
    """One line for a person: no control characters, no paths of this machine."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    printable = "".join(character if character.isprintable() else " " for character in line[: 4 * most])
    short = _PATH.sub("…", printable).strip()
    return short if len(short) <= most else short[: most - 1] + "…"
