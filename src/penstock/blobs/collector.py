"""Removes bytes that belong to no document: files that no row names, and rows that no version names.

A row is first dated as unused, and given up when it has stayed so for the grace; an upload of the same content meanwhile
takes it back, by writing to the row: so one of the two always sees what the other has done. `deleting` is committed before
the file goes, and the row goes last. The SQL is in collector.sql.
"""

import random
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from penstock.blobs.store import Store
from penstock.database import Database, statements

sql = statements(__file__)

BITE = 500
PART = 5000  # rows that are looked at when it is not the whole


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed."""

    files: int = 0  # that no row named
    blobs: int = 0  # that no version named


async def collect(database: Database, store: Store, grace: timedelta, *, whole: bool = True) -> Collected:
    """Look through everything, in bites; or through a part that is chosen by chance, for who comes every minute."""
    if whole:
        await _note_unused(database, 0, None)
    else:
        last: int = await database.pool.repeat(sql.last_blob.value)
        await _note_unused(database, random.randint(0, last), PART)  # noqa: S311  no secret
    blobs = await _collect_blobs(database, store, grace)
    prefix = "" if whole else random.choice("0123456789abcdef")  # noqa: S311  no secret
    return Collected(await _collect_files(database, store, grace, prefix), blobs)


async def _note_unused(database: Database, after: int, most: int | None) -> None:
    done = 0
    while most is None or done < most:
        bite = partial(sql.note_unused.value, after=after, bite=BITE)
        last: int | None = await database.pool.repeat(bite)
        if last is None:
            return
        after = last
        done += BITE


async def _collect_blobs(database: Database, store: Store, grace: timedelta) -> int:
    removed = 0
    while True:
        async with database.pool.transaction() as tx:
            doomed = await sql.give_up(tx, grace=grace, bite=BITE)
        if not doomed:
            return removed
        for row in doomed:
            await store.remove(row["key"])
        await database.pool.repeat(partial(sql.forget.run, ids=[row["id"] for row in doomed]))
        removed += len(doomed)


async def _collect_files(database: Database, store: Store, grace: timedelta, prefix: str) -> int:
    removed = 0
    old: list[str] = []
    async for key, age in store.keys(prefix):
        if age > grace.total_seconds():
            old.append(key)
        if len(old) >= BITE:
            removed += await _remove_unknown(database, store, old)
            old = []
    return removed + await _remove_unknown(database, store, old)


async def _remove_unknown(database: Database, store: Store, keys: list[str]) -> int:
    rows = await database.pool.repeat(lambda session: sql.unknown_keys(session, keys=keys)) if keys else []
    for row in rows:
        await store.remove(row["key"])
    return len(rows)
