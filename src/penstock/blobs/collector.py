"""Garbage collection of blobs: removes files that no row names, and rows that no version names.

A row is first dated as unused, and deleted when it has stayed so for the grace period. An upload of the same content takes it
back by writing to the row, so that one of the two always sees what the other has done. `deleting` is committed before the
file is removed, and the row is removed last.
"""

import random
from dataclasses import dataclass
from datetime import timedelta

from penstock.blobs.store import BlobStore
from penstock.database import Database, Session, statements

sql = statements(__file__)

BATCH = 500
SAMPLE = 5000  # rows that a run checks when it does not check all


@dataclass(frozen=True, slots=True)
class CollectorResult:
    files: int = 0  # that no row named
    blobs: int = 0  # that no version named


async def collect(database: Database, store: BlobStore, grace: timedelta, *, whole: bool = True) -> CollectorResult:
    """Check everything, in batches; or a random sample, for a run every minute."""
    if whole:
        await _note_unused(database, 0, None)
    else:
        last: int = await database.pool.repeat(sql.last_blob.value)
        await _note_unused(database, random.randint(0, last), SAMPLE)  # noqa: S311  not a secret
    blobs = await _collect_blobs(database, store, grace)
    prefix = "" if whole else random.choice("0123456789abcdef")  # noqa: S311  not a secret
    return CollectorResult(await _collect_files(database, store, grace, prefix), blobs)


async def _note_unused(database: Database, after: int, most: int | None) -> None:
    done = 0
    while most is None or done < most:
        last: int | None = await database.pool.repeat(sql.note_unused.value, after=after, batch=BATCH)
        if last is None:
            return
        after = last
        done += BATCH


async def _collect_blobs(database: Database, store: BlobStore, grace: timedelta) -> int:
    removed = 0
    while True:
        async with database.pool.transaction() as tx:
            unused = await sql.give_up(tx, grace=grace, batch=BATCH)
        if not unused:
            return removed
        for row in unused:
            await store.remove(row["key"])
        await database.pool.repeat(sql.forget.run, ids=[row["id"] for row in unused])
        removed += len(unused)


async def _collect_files(database: Database, store: BlobStore, grace: timedelta, prefix: str) -> int:
    removed = 0
    old: list[str] = []
    async for key, age in store.keys(prefix):
        if age > grace.total_seconds():
            old.append(key)
        if len(old) >= BATCH:
            removed += await _remove_unknown(database, store, old)
            old = []
    return removed + await _remove_unknown(database, store, old)


async def _remove_unknown(database: Database, store: BlobStore, keys: list[str]) -> int:
    unknown = await database.pool.repeat(unknown_keys, keys) if keys else []
    for key in unknown:
        await store.remove(key)
    return len(unknown)


async def unknown_keys(session: Session, keys: list[str]) -> list[str]:
    """Those of these keys that no row names."""
    return [row["key"] for row in await sql.unknown_keys(session, keys=keys)]
