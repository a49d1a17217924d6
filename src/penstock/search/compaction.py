"""Compaction: a job moves what was added lately from the deltas into the long rows of postings and the vector indexes.

It works in short transactions, can be stopped anywhere and goes on with the next call. Questions see every row once at any
time. One compaction of a collection works at a time; another call returns at once. In the database, the word for a delta is
`tail`, and the word for what was compacted is `folded`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.database import Database, Session, statements
from penstock.search.bm25.postings import compact_postings, take_turn
from penstock.search.vectors import VectorTable, made_models, open_owner, vector_schema

sql = statements(__file__)

DELTA = 20_000  # chunks of a collection that may wait in the deltas
UNINDEXED_BATCH = 5_000  # vectors that are moved in one transaction
INDEXED_BATCH = 50  # of them with an index, at some 2.5 ms each
# Vectors of an index that is built again when a quarter more has come: a tenth of the work of adding them.
REBUILT_UP_TO = 200_000
BUILD_MEMORY = range(64, 2048)  # megabytes: at least and at most
BUILT_IN_A_MEGABYTE = 800  # vectors of an index that is being built: 512 MB were full with 550,000
BUILD_LIMIT = 6 * 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class CompactionNeed:
    """A collection with much in its deltas."""

    collection: int
    model: str
    chunks: int


async def needs_compaction(database: Database, *, delta: int = DELTA) -> list[CompactionNeed]:
    """The collections with more chunks in their deltas than `delta`. It reads only the deltas."""
    rows = await database.pool.repeat(sql.needs_compaction, delta=delta)
    return [CompactionNeed(row["collection_id"], row["model"], row["chunks"]) for row in rows]


async def compact(database: Database, collection: int, model: str) -> int:
    """Compact a collection's postings, and its vectors if it is large; how many rows were moved."""
    session = await open_owner(database)
    try:
        if not await sql.try_alone.value(session, collection=collection):
            return 0
        moved = await compact_postings(database, collection)
        chunks = await sql.live_chunks.value(session, collection=collection)
        # Vectors that are searched in Qdrant stay where they are: an index for them would never be read.
        here = await sql.is_searched_here.value(session, collection=collection)
        if here and chunks > database.settings.search.exact_up_to and await VectorTable(model).exists(session):
            moved += await _compact_vectors(database, session, collection, model)
        return moved
    finally:
        session.terminate()


async def is_compacted(database: Database, collection: int, model: str) -> bool:
    """Whether a collection's vectors by this model have their index; those of a small collection need none."""

    async def has_index(session: Session) -> bool:
        chunks: int = await sql.live_chunks.value(session, collection=collection)
        if chunks <= database.settings.search.exact_up_to:
            return True
        return bool(await VectorTable(model).statement("index_state", collection=collection).value(session))

    return await database.pool.repeat(has_index)


async def drop_vector_index(
    database: Database, collection: int, model: str, wanted: Callable[[Session], Awaitable[bool]]
) -> bool:
    """Drop a collection's index for a model, unless that is wanted; False during a compaction, which may be building it."""
    session = await open_owner(database)
    try:
        if not await sql.try_alone.value(session, collection=collection):
            return False
        if not await wanted(session):  # asked under the lock: none can be built now
            await session.execute("set statement_timeout = 0")
            drop = VectorTable(model).statement("drop_index", collection=collection)
            await session.execute(drop.text, timeout=BUILD_LIMIT)
        return True
    finally:
        session.terminate()


async def drop_vector_indexes(
    database: Database, collection: int, wanted: Callable[[Session], Awaitable[bool]]
) -> None:
    """Drop all indexes of a collection, unless they are wanted. That takes no time; a vacuum that takes a million vectors out
    of an index keeps a processor busy for a quarter of an hour."""
    if await database.pool.repeat(wanted):
        return
    for model in await database.pool.repeat(made_models):
        index_state = VectorTable(model).statement("index_state", collection=collection)
        if await database.pool.repeat(index_state.value) is not None:
            await drop_vector_index(database, collection, model, wanted)


async def _compact_vectors(database: Database, session: Session, collection: int, model: str) -> int:
    """Do nothing while the delta is short enough to be read through. While an index is built, questions read all vectors."""
    table = VectorTable(model, await vector_schema(session))
    complete = await table.statement("index_state", collection=collection).value(session)
    delta = await table.statement("count_delta").value(session, collection=collection)
    if complete and delta <= database.settings.search.exact_up_to:
        return 0
    compacted = await table.statement("count_compacted").value(session, collection=collection)
    if complete and (compacted + delta > REBUILT_UP_TO or 4 * delta < compacted):
        return await _move(database, table, collection, INDEXED_BATCH)
    # Without a limit of time, and with memory for the whole graph: past it, building is many times slower.
    memory = min(max((compacted + delta) // BUILT_IN_A_MEGABYTE, BUILD_MEMORY.start), BUILD_MEMORY.stop)
    await session.execute(f"set statement_timeout = 0; set maintenance_work_mem = '{memory}MB'")
    await session.execute(table.statement("drop_index", collection=collection).text, timeout=BUILD_LIMIT)
    moved = await _move(database, table, collection, UNINDEXED_BATCH)
    await table.statement("vacuum_gently").run(session)
    await session.execute(table.statement("build_index", collection=collection).text, timeout=BUILD_LIMIT)
    return moved


async def _move(database: Database, table: VectorTable, collection: int, batch: int) -> int:
    versions = await database.pool.repeat(table.statement("compactable_versions"), collection=collection)
    version_ids = [row["version_id"] for row in versions]
    moved = 0
    while version_ids:
        async with database.pool.transaction() as tx:
            await take_turn(tx, collection)
            count = await table.statement("compact_vectors").value(
                tx, collection=collection, versions=version_ids, most=batch
            )
        moved += count
        if count < batch:
            break
    return moved
