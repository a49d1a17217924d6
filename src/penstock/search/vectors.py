"""Vectors: for each model a delta that is read from end to end, and a compacted table with an index for each large collection.

They are made when a model is first used, because the engine alone needs no pgvector. A vector has length 1, so the inner
product is the cosine; it has two bytes a number. New vectors never go into an HNSW index within a caller's transaction (2,000
took 5 s): a job moves them (compaction.py). The compacted table is called `folded_vectors_MODEL`.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import asyncpg

from penstock.database import Database, DatabaseAddress, Pool, Session, Statement, grant_use, statements
from penstock.errors import DatabaseUnsuitable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

OLDEST_PGVECTOR = (0, 8)
MODEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"


@dataclass
class PreparedModels:
    """The models whose tables this process has seen, and the lock under which it makes some."""

    models: set[tuple[str, int]] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


made: WeakKeyDictionary[Pool, PreparedModels] = WeakKeyDictionary()


@dataclass(frozen=True)
class VectorTable:
    """The statements about the tables of one model."""

    model: str
    schema: str = "public"  # of pgvector

    def __post_init__(self) -> None:
        if not MODEL.fullmatch(self.model):
            raise ValueError(f"{self.model!r} cannot be the name of a model")

    @property
    def compacted(self) -> str:
        return f"folded_vectors_{self.model}"

    def statement(self, name: str, **numbers: int) -> Statement:
        """A statement of vectors.sql with this model's names in it, and these numbers."""
        numbers = {f"{word}_number": number for word, number in numbers.items()}
        return self.named(getattr(sql, name), **numbers)

    def named(self, statement: Statement, **numbers: int) -> Statement:
        """A statement of any module with the names of this model's tables in it."""
        return self._named(statement, "", numbers)

    def both(self, statement: Statement, **numbers: int) -> list[Statement]:
        """A statement about `either_model`, for both tables in the order in which a compaction moves vectors."""
        return [self._named(statement, table, numbers) for table in (f"vectors_{self.model}", self.compacted)]

    def _named(self, statement: Statement, either: str, numbers: Mapping[str, int]) -> Statement:
        names = {
            "vectors_model": f"vectors_{self.model}",
            "folded_model": self.compacted,
            "either_model": either,
            "vector_schema": self.schema,
        }
        return statement.named(**{word: name for word, name in names.items() if word in statement.text}, **numbers)

    async def exists(self, session: Session) -> bool:
        return bool(await self.statement("exists").value(session))

    async def copy(self, tx: Session, rows: bytearray, *, compacted: bool = False) -> None:
        """Add the rows of `vector_rows`; to the compacted table only while it has no index for the collection."""
        await tx.copy_to_table(
            self.compacted if compacted else f"vectors_{self.model}",
            schema_name="penstock",
            columns=("version_id", "ordinal", "collection_id", "embedding"),
            source=rows,
            format="binary",
        )

    async def remove(self, tx: Session, collection: int, version: int, most: int) -> int:
        """Remove up to so many vectors of a version; how many."""
        removed = 0
        for statement in self.both(sql.remove):
            removed += await statement.value(tx, collection=collection, version=version, most=most - removed)
        return removed

    async def remove_collection(self, tx: Session, collection: int, most: int) -> int:
        """Remove up to so many vectors of a collection, whatever version they are of; how many."""
        removed = 0
        for statement in self.both(sql.remove_collection):
            if removed < most:
                removed += await statement.value(tx, collection=collection, most=most - removed)
        return removed

    async def counts(self, session: Session, collection: int, versions: Sequence[int]) -> dict[int, int]:
        """The number of vectors of each of these versions; those without one are left out."""
        rows = await self.statement("count_by_version")(session, collection=collection, versions=list(versions))
        return {row["version_id"]: row["vectors"] for row in rows}

    async def ordinals(self, session: Session, collection: int, version: int) -> list[int]:
        """The chunks of a version that have a vector, in their order."""
        rows = await self.statement("ordinals_of")(session, collection=collection, version=version)
        return [row["ordinal"] for row in rows]


async def vector_schema(session: Session) -> str:
    extension = await sql.extension.first(session)
    return extension["schema"] if extension else "public"


async def made_models(session: Session) -> list[str]:
    """The models that have tables, whichever process has made them. Takes about 0.1 ms."""
    return [row["model"] for row in await sql.made_models(session)]


def vector_rows(
    versions: "int | NDArray[np.int64]", ordinals: "NDArray[np.int32]", collection: int, vectors: "NDArray[np.float32]"
) -> bytearray:
    """Rows as PostgreSQL's binary COPY takes them, made at once: 20 times as fast as one by one."""
    import numpy as np

    count, dimensions = vectors.shape
    layout = np.dtype(
        [
            ("fields", ">i2"),
            ("version_size", ">i4"),
            ("version", ">i8"),
            ("ordinal_size", ">i4"),
            ("ordinal", ">i4"),
            ("collection_size", ">i4"),
            ("collection", ">i4"),
            ("embedding_size", ">i4"),
            ("dimensions", ">i2"),
            ("unused", ">i2"),
            ("embedding", ">f2", (dimensions,)),
        ]
    )
    rows = np.zeros(count, dtype=layout)
    rows["fields"] = 4
    rows["version_size"], rows["version"] = 8, versions
    rows["ordinal_size"], rows["ordinal"] = 4, ordinals
    rows["collection_size"], rows["collection"] = 4, collection
    rows["embedding_size"], rows["dimensions"] = 4 + 2 * dimensions, dimensions
    rows["embedding"] = vectors
    return bytearray(COPY_HEAD + rows.tobytes() + COPY_END)


async def prepare_model(database: Database, model: str, dimensions: int) -> None:
    """Make the tables of a model unless they exist. Raises DatabaseUnsuitable when the database cannot have them."""
    prepared = made.setdefault(database.pool, PreparedModels())
    if (model, dimensions) in prepared.models:
        return
    async with prepared.turn:  # the first documents of a worker arrive together, and one of them is enough
        if (model, dimensions) in prepared.models:
            return
        if not await check_dimensions(database, model, dimensions):
            await _make(database, model, dimensions)
        prepared.models.add((model, dimensions))


async def check_dimensions(database: Database, model: str, dimensions: int) -> bool:
    """Whether a model has tables. Raises DatabaseUnsuitable when they are for vectors of another length."""
    found = await database.pool.repeat(VectorTable(model).statement("dimensions").value)
    if found not in (None, dimensions):
        raise DatabaseUnsuitable(
            f"The vectors of the model {model!r} have {found} dimensions in this database, but the model returns "
            f"{dimensions}: give the other model a name of its own."
        )
    return found is not None


async def open_owner(database: Database) -> Session:
    """A session that may make tables and indexes; the caller ends it with `terminate`."""
    owner = database.settings.database_owner_url
    if owner is None:
        return await database.direct("vectors")
    return await DatabaseAddress(database.settings, None, owner).open_session("vectors")


async def _make(database: Database, model: str, dimensions: int) -> None:
    async with making(database) as (session, schema):
        table = VectorTable(model, schema)
        for statement in (
            *table.both(sql.create, dimensions_number=dimensions),
            *table.both(sql.store_in_the_row),
            *table.both(sql.index_versions),
            table.named(sql.guard),
        ):
            await statement.run(session)


@asynccontextmanager
async def making(database: Database) -> AsyncIterator[tuple[Session, str]]:
    """A transaction that may make tables for vectors, and the schema of pgvector; one maker at a time."""
    role = await database.pool.repeat(lambda session: session.fetchval("select current_user"))
    session = await open_owner(database)
    try:
        async with session.transaction():
            await sql.lock_making.run(session)
            await sql.create_extension.run(session)
            extension = await sql.extension.first(session)
            _check_version(str(extension["version"]) if extension else "0")
            yield session, extension["schema"] if extension else "public"
            if database.settings.database_owner_url is not None:
                await grant_use(session, role=role)
    except (asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFileError) as error:
        raise DatabaseUnsuitable(
            f"The PostgreSQL server has no pgvector ({error}): install pgvector 0.8 or newer on it, or leave database_url "
            "empty to use the server that comes with Penstock."
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise DatabaseUnsuitable(
            f"The database user may not make the tables for vectors ({error}): have the owner run `create extension vector`, "
            "or set database_owner_url to a user that may."
        ) from error
    finally:
        session.terminate()


def _check_version(version: str) -> None:
    if tuple(map(int, version.split(".")[:2])) < OLDEST_PGVECTOR:
        raise DatabaseUnsuitable(
            f"The database has pgvector {version}, and Penstock needs 0.8 or newer: install it and run "
            "`alter extension vector update`."
        )
