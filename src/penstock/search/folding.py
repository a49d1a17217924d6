"""Folding: what was added lately moves from the tails into the long rows and the vector indexes, by a job.

It works in short transactions, can be stopped anywhere and goes on with the next call. Questions see every row once at any
moment. One fold per collection works at a time; another call returns at once. The SQL is in folding.sql, postings.sql and
vectors.sql.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.database import Database, Session, statements
from penstock.search.postings import fold_postings, take_turn
from penstock.search.vectors import VectorTable, made_models, open_owner, templates

sql = statements(__file__)

TAIL = 20_000  # chunks of a collection that may wait in the tails
UNINDEXED_BITE = 5_000  # vectors that are moved in one transaction
INDEXED_BITE = 50  # of them with an index, at some 2.5 ms each
REBUILT_UP_TO = (
    200_000  # vectors of an index that is made anew when a quarter more has come: a tenth of the work of adding it
)
BUILD_MEMORY = range(64, 2048)  # megabytes: at least and at most
BUILT_IN_A_MEGABYTE = 800  # vectors of an index that is being made: 512 MB were full with 550,000
BUILD_LIMIT = 6 * 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class Foldable:
    """A collection with much in its tails."""

    collection: int
    model: str
    chunks: int


async def needs_folding(database: Database, *, tail: int = TAIL) -> list[Foldable]:
    """The collections for which a fold is worth its while. It reads only what stands in the tails."""
    rows = await database.pool.repeat(lambda session: sql.needs_folding(session, tail=tail))
    return [Foldable(row["collection_id"], row["model"], row["chunks"]) for row in rows]


async def fold(database: Database, collection: int, model: str) -> int:
    """Fold a collection's postings, and its vectors if it is large; how many rows were moved."""
    session = await open_owner(database)
    try:
        if not await sql.try_alone.value(session, collection=collection):
            return 0
        moved = await fold_postings(database, collection)
        chunks = await sql.live_chunks.value(session, collection=collection)
        # Vectors that are searched in Qdrant stay where they are: an index for them would be read by nobody.
        here = await sql.is_searched_here.value(session, collection=collection)
        if here and chunks > database.settings.search.exact_up_to and await VectorTable(model).exists(session):
            moved += await _fold_vectors(database, session, collection, model)
        return moved
    finally:
        session.terminate()


async def is_folded(database: Database, collection: int, model: str) -> bool:
    """Whether a collection's vectors by this model have the index that they deserve; those of a small one deserve none."""

    async def look(session: Session) -> bool:
        chunks: int = await sql.live_chunks.value(session, collection=collection)
        if chunks <= database.settings.search.exact_up_to:
            return True
        return bool(await VectorTable(model).statement("index_state", collection=collection).value(session))

    return await database.pool.repeat(look)


async def drop_vector_index(
    database: Database, collection: int, model: str, wanted: Callable[[Session], Awaitable[bool]]
) -> bool:
    """Drop a collection's index for a model, unless that is wanted; False while somebody folds, who may be making it."""
    session = await open_owner(database)
    try:
        if not await sql.try_alone.value(session, collection=collection):
            return False
        if not await wanted(session):  # asked while nobody can make one
            await session.execute("set statement_timeout = 0")
            drop = VectorTable(model).statement("drop_index", collection=collection)
            await session.execute(drop.text, timeout=BUILD_LIMIT)
        return True
    finally:
        session.terminate()


async def drop_vector_indexes(
    database: Database, collection: int, wanted: Callable[[Session], Awaitable[bool]]
) -> None:
    """All indexes of a collection, unless they are wanted. To drop one takes no time; to have a million vectors taken out of
    it by the vacuum takes a processor for a quarter of an hour."""
    if await database.pool.repeat(wanted):
        return
    for model in await database.pool.repeat(made_models):
        index_state = VectorTable(model).statement("index_state", collection=collection)
        if await database.pool.repeat(index_state.value) is not None:
            await drop_vector_index(database, collection, model, wanted)


async def _fold_vectors(database: Database, session: Session, collection: int, model: str) -> int:
    """Nothing while the tail is short enough to be read through. While an index is made, questions read all vectors."""
    extension = await templates.extension.first(session)
    table = VectorTable(model, extension["schema"] if extension else "public")
    complete = await table.statement("index_state", collection=collection).value(session)
    tail = await table.statement("count_tail").value(session, collection=collection)
    if complete and tail <= database.settings.search.exact_up_to:
        return 0
    folded = await table.statement("count_folded").value(session, collection=collection)
    if complete and (folded + tail > REBUILT_UP_TO or 4 * tail < folded):
        return await _move(database, table, collection, INDEXED_BITE)
    # Without a limit of time, and with memory for the whole graph: past it, building is many times slower.
    memory = min(max((folded + tail) // BUILT_IN_A_MEGABYTE, BUILD_MEMORY.start), BUILD_MEMORY.stop)
    await session.execute(f"set statement_timeout = 0; set maintenance_work_mem = '{memory}MB'")
    await session.execute(table.statement("drop_index", collection=collection).text, timeout=BUILD_LIMIT)
    moved = await _move(database, table, collection, UNINDEXED_BITE)
    await table.statement("vacuum_gently").run(session)
    await session.execute(table.statement("build_index", collection=collection).text, timeout=BUILD_LIMIT)
    return moved


async def _move(database: Database, table: VectorTable, collection: int, bite: int) -> int:
    versions = await database.pool.repeat(
        lambda session: table.statement("foldable_versions")(session, collection=collection)
    )
    numbers = [row["version_id"] for row in versions]
    moved = 0
    while numbers:
        async with database.pool.transaction() as tx:
            await take_turn(tx, collection)
            count = await table.statement("fold_vectors").value(tx, collection=collection, versions=numbers, most=bite)
        moved += count
        if count < bite:
            break
    return moved
