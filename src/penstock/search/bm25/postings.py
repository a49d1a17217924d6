"""Postings: the chunks that have a term. New ones are short rows of a delta; compacted ones are long rows.

An entry has twelve bytes: the chunk's key, how often the term is in it, and how many words it has. A term's entries move from
the delta to its long row in one transaction, and a question reads both in one statement: it sees each entry once, whatever is
being compacted. Removal and compaction of one collection take turns, by a lock of the transaction: otherwise an entry could
move while it is being removed. In the database, the word for the delta is `tail`, and the word for long rows is `folded`.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.database import Database, Session, statements

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

FORM = struct.Struct("<qHH")
SIZE = FORM.size
ORDINAL_BITS = 21  # two million chunks of a version, four billion thousands of versions
COUNT_MAX = 0xFFFF  # of a term in a chunk, and of the words of a chunk
BUCKETS = 32  # rows of a batch in the delta, at most
MOVED_MOST = 4_000  # rows that are compacted in one transaction
TOGETHER = 10_000  # batches that are compacted together: more of them change each long row less often
SLICE = 500  # terms that are removed in one statement
LONG = 32_768  # bytes of a part; then the next one begins

# -- entries ------------------------------------------------------------------------------------------------------


def chunk_key(version: int, ordinal: int) -> int:
    return version << ORDINAL_BITS | ordinal


def split_key(key: int) -> tuple[int, int]:
    """Version and ordinal."""
    return key >> ORDINAL_BITS, key & ((1 << ORDINAL_BITS) - 1)


def bucket_of(term: str) -> int:
    """The row of a batch that has the term, until it is compacted."""
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
    """A mask of the keys that are of these versions."""
    import numpy as np

    return np.isin(keys >> ORDINAL_BITS, versions)


def versions_of(ids: Iterable[int]) -> "NDArray[np.int64]":
    import numpy as np

    return np.array(list(ids), dtype=np.int64)


# -- rows ---------------------------------------------------------------------------------------------------------


async def take_turn(tx: Session, collection: int) -> None:
    """Wait for the turn to compact or remove in this collection. It lasts until the caller's commit."""
    await sql.take_turn.run(tx, collection=collection)


async def remove_postings(tx: Session, version: int, most: int) -> int:
    """Remove the postings of a version for about so many terms; how many terms. It is the caller's turn."""
    removed = 0
    while removed < most:
        batch = await sql.next_batch.first(tx, version=version)
        if batch is None:
            break
        collection = batch["collection_id"]
        terms = batch["terms"].split("\n")
        terms, left = terms[:SLICE], terms[SLICE:]
        # The delta first: what a compaction has moved before our turn is in the long rows by then.
        await sql.remove_from_delta.run(
            tx, collection=collection, buckets=BUCKETS, version=version, first=batch["first"]
        )
        if batch["place"] != "tail":
            await _remove_from_compacted(tx, collection, terms, version)
        await sql.shorten_batch.run(tx, version=version, first=batch["first"], left="\n".join(left))
        removed += len(terms)
    return removed


async def _remove_from_compacted(tx: Session, collection: int, terms: list[str], version: int) -> None:
    gone = versions_of([version])
    changed = []
    for row in await sql.compacted_with(tx, collection=collection, terms=terms, version=version):
        entries = unpack(row["entries"])
        kept = without(entries, gone)
        if len(kept) < len(entries):
            changed.append((row["term"], row["part"], kept.tobytes()))
    await replace_compacted(tx, collection, changed)


async def replace_compacted(tx: Session, collection: int, changed: Sequence[tuple[str, int, bytes]]) -> None:
    """Give parts of terms (term, part) other entries; a part that has none left is removed."""
    if changed:
        terms, parts, contents = zip(*changed, strict=True)
        await sql.replace_compacted.run(
            tx, collection=collection, terms=list(terms), parts=list(parts), contents=list(contents)
        )


async def compact_postings(database: Database, collection: int) -> int:
    """Compact the delta of a collection in short transactions; how many rows were moved. It can be stopped anywhere."""
    moved = 0
    while versions := await _begin_compaction(database, collection):
        moved += await _compact(database, collection, versions)
    return moved


async def _begin_compaction(database: Database, collection: int) -> list[int]:
    async with database.pool.transaction() as tx:
        await take_turn(tx, collection)
        rows = await sql.begin_compaction(tx, collection=collection, most=TOGETHER)
        return [row["version_id"] for row in rows]


async def _compact(database: Database, collection: int, versions: list[int]) -> int:
    moved, bucket = 0, 0
    while bucket < BUCKETS:
        async with database.pool.transaction() as tx:
            await take_turn(tx, collection)
            count = await sql.compact_bucket.value(
                tx, collection=collection, bucket=bucket, versions=versions, most=MOVED_MOST, long=LONG
            )
        moved += count
        if count < MOVED_MOST:
            bucket += 1
    async with database.pool.transaction() as tx:
        await sql.end_compaction.run(tx, collection=collection, versions=versions)
    return moved
