"""Migrations: bring a database to the schema of this release, forwards only, exactly once.

Files are `schema/0001_word.sql`, applied in order, each in a transaction with its row in `penstock.migrations` (a file
whose first line is `-- outside a transaction` runs as it is and must be repeatable). Many processes may start at once:
an advisory lock lets one of them work. It is taken by trying: a session that waits inside PostgreSQL holds a snapshot,
and `create index concurrently` would wait for it for ever.

Each file is one *step*, and code works with a schema that is one step newer or older, which is what a rolling deploy
needs; beyond that it stops with a sentence. So a change expands first, and contracts two steps later at the earliest.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from penstock.database.session import Session
from penstock.database.sql_files import statements
from penstock.database.tenancy import make_roles
from penstock.errors import MigrationRefused, SchemaMismatch

sql = statements(__file__)

FOLDER = Path(__file__).parent / "schema"
TRY_EVERY = 0.1
TELL_EVERY = 2.0


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        return not self.text.startswith("-- outside a transaction")


def read_migrations(folder: Path = FOLDER) -> list[Migration]:
    """The files in order, without a gap in their numbers."""
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        named = re.fullmatch(r"(\d{4})_(\w+)", path.stem)
        if named is None or int(named[1]) != len(found) + 1:
            raise MigrationRefused(
                f"{path} breaks the row of migrations: the next one is {len(found) + 1:04}_word.sql."
            )
        found.append(Migration(int(named[1]), path.stem, path.read_text(encoding="utf-8")))
    return found


async def migrate(
    session: Session, *, folder: Path = FOLDER, progress: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Apply what is missing; the names of what *we* applied."""
    migrations = read_migrations(folder)
    if await _is_current(session, migrations):
        return []
    began = told = time.monotonic()
    while not await sql.try_lock.value(session):
        if time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            progress(f"Another process is migrating the database, {told - began:.0f} s …")
        await asyncio.sleep(TRY_EVERY)
    try:
        return await _apply_missing(session, migrations, progress)
    finally:
        if not session.is_closed():
            await sql.unlock.value(session)


async def check_schema(session: Session, *, folder: Path = FOLDER) -> None:
    """Refuse to work with a schema that is more than one step away from this code."""
    known = len(read_migrations(folder))
    found = await schema_number(session)
    if found > known + 1:
        raise SchemaMismatch(
            f"The database is at schema {found} and this Penstock knows {known}: install the newer release."
        )
    if found < known - 1 or found == 0:
        raise SchemaMismatch(
            f"The database is at schema {found} and this Penstock needs {known}: run `penstock db migrate`."
        )


async def schema_number(session: Session) -> int:
    """The number of the newest migration that was applied; 0 in an empty database."""
    return max(await _applied(session), default=0)


async def grant_use(session: Session, *, role: str) -> None:
    """Let the role of the application work with the owner's tables; it cannot change them."""
    for grant in await sql.grants(session, role=role):
        await session.execute(grant["statement"])


async def _is_current(session: Session, migrations: list[Migration]) -> bool:
    """Without the lock: a database that is already right, or newer than us, is left alone."""
    applied = await _applied(session)
    _refuse_changed(migrations, applied)
    return len(applied) >= len(migrations)


async def _apply_missing(session: Session, migrations: list[Migration], progress: Callable[[str], None]) -> list[str]:
    await make_roles(session)
    await sql.create_schema.run(session)
    await sql.create_registry.run(session)
    applied = await _applied(session)
    _refuse_changed(migrations, applied)
    mine = []
    for migration in migrations:
        if migration.number not in applied:
            progress(f"Migrating: {migration.name}")
            await _apply(session, migration)
            mine.append(migration.name)
    return mine


async def _apply(session: Session, migration: Migration) -> None:
    try:
        if migration.in_transaction:
            async with session.transaction():
                await session.execute(migration.text, timeout=3600)
                await _record(session, migration)
        else:
            await session.execute(migration.text, timeout=3600)
            await _record(session, migration)
    except asyncpg.PostgresError as error:
        raise MigrationRefused(
            f"The migration {migration.name} failed ({error}); the schema is as it was before it."
        ) from error


async def _record(session: Session, migration: Migration) -> None:
    await sql.record_migration.run(session, number=migration.number, name=migration.name, checksum=migration.checksum)


async def _applied(session: Session) -> dict[int, str]:
    if not await sql.has_registry.value(session):
        return {}
    return {row["number"]: row["checksum"] for row in await sql.applied_migrations(session)}


def _refuse_changed(migrations: list[Migration], applied: dict[int, str]) -> None:
    for migration in migrations:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationRefused(
                f"{migration.name}.sql was changed after it had been applied: restore it, and put the change into a new file."
            )
