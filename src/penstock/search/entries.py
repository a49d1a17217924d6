"""Postings as bytes: for each chunk that has a term, its key, how often the term is in it, and how many words it has.

A chunk's key is one number, version and ordinal together, so that rankings are sums over equal numbers. Twelve bytes an
entry, in the order of the machine that all of ours run on (little endian).
"""

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORM = struct.Struct("<qHH")
SIZE = FORM.size
ORDINAL_BITS = 21  # two million chunks of a version, four billion thousands of versions
COUNT_MAX = 0xFFFF  # of a term in a chunk, and of the words of a chunk
BUCKETS = 32  # rows of a batch in the tail, at most


def chunk_key(version: int, ordinal: int) -> int:
    return version << ORDINAL_BITS | ordinal


def split_key(key: int) -> tuple[int, int]:
    """Version and ordinal."""
    return key >> ORDINAL_BITS, key & ((1 << ORDINAL_BITS) - 1)


def bucket_of(term: str) -> int:
    """Which row of a batch has the term, until it is folded."""
    return crc32(term.encode()) % BUCKETS


def pack(key: int, count: int, words: int) -> bytes:
    return FORM.pack(key, min(count, COUNT_MAX), words)


def layout() -> "np.dtype[np.void]":
    import numpy as np

    return np.dtype([("key", "<i8"), ("count", "<u2"), ("words", "<u2")])


def unpack(entries: bytes) -> "NDArray[np.void]":
    import numpy as np

    return np.frombuffer(entries, dtype=layout())


def without(entries: "NDArray[np.void]", versions: "NDArray[np.int64]") -> "NDArray[np.void]":
    """The entries of all other versions."""
    import numpy as np

    if not len(versions) or not len(entries):
        return entries
    kept: NDArray[np.void] = entries[~np.isin(entries["key"] >> ORDINAL_BITS, versions)]
    return kept


def only(keys: "NDArray[np.int64]", versions: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    """Which of the keys are of these versions."""
    import numpy as np

    return np.isin(keys >> ORDINAL_BITS, versions)


def versions_of(numbers: Iterable[int]) -> "NDArray[np.int64]":
    import numpy as np

    return np.array(list(numbers), dtype=np.int64)
