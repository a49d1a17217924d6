"""Migrations: once, in order, unchanged, and never half."""

import asyncio
import sys
from pathlib import Path

import pytest

from penstock.database import Database, Session
from penstock.database.migrations import check_schema, migrate, read_migrations
from penstock.errors import MigrationRefused, SchemaMismatch
from penstock.settings import DatabaseUrl

APPLY = """
import asyncio, sys
from datetime import timedelta
from pathlib import Path
from penstock.database.migrations import migrate
from penstock.database.session import connect
from penstock.settings import DatabaseUrl, PoolSettings

async def main():
    session = await connect(DatabaseUrl(sys.argv[1]), PoolSettings(), "migrate")
    print(len(await migrate(session, folder=Path(sys.argv[2]))))
    await session.close()

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The real migrations, and room for more."""
    copy = tmp_path / "schema"
    copy.mkdir()
    for migration in read_migrations():
        (copy / f"{migration.name}.sql").write_text(migration.text)
    return copy


def add(folder: Path, text: str, word: str = "more") -> int:
    number = len(list(folder.iterdir())) + 1
    (folder / f"{number:04}_{word}.sql").write_text(text)
    return number


async def tables(session: Session) -> set[str]:
    rows = await session.fetch("select tablename from pg_tables where schemaname = 'penstock'")
    return {row["tablename"] for row in rows}


@pytest.mark.slow
async def test_four_processes_migrate_once(database: Database, database_url: DatabaseUrl, folder: Path) -> None:
    # Not idempotent on purpose, and slow enough that all four meet: a second application would fail or leave two rows.
    add(folder, "create table penstock.applied (n int); select pg_sleep(0.5); insert into penstock.applied values (1);")
    add(folder, "insert into penstock.applied values (2);", "again")
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", APPLY, database_url.reveal(), str(folder), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    outputs = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert sorted(int(output) for output, _ in outputs) == [0, 0, 0, 2]
    async with database.pool.session() as session:
        assert [row["n"] for row in await session.fetch("select n from penstock.applied order by n")] == [1, 2]


async def test_a_failed_migration_leaves_nothing(database: Database, folder: Path) -> None:
    add(folder, "create table penstock.half (n int); select 1/0;")
    async with database.pool.session() as session:
        with pytest.raises(MigrationRefused, match="division by zero"):
            await migrate(session, folder=folder)
        assert "half" not in await tables(session)
        add(folder, "select 1", "never_reached")


async def test_a_migration_outside_a_transaction(database: Database, folder: Path) -> None:
    add(folder, "create table penstock.t (n int);")
    add(folder, "-- outside a transaction\ncreate index concurrently if not exists t_n on penstock.t (n)", "index")
    async with database.pool.session() as session:
        assert len(await migrate(session, folder=folder)) == 2
        assert await session.fetchval("select indisvalid from pg_index where indexrelid = 'penstock.t_n'::regclass")


async def test_a_changed_applied_file_is_refused(database: Database, folder: Path) -> None:
    first = read_migrations(folder)[0]
    (folder / f"{first.name}.sql").write_text(first.text + "\n-- changed")
    async with database.pool.session() as session:
        with pytest.raises(MigrationRefused, match=f"{first.name}.sql was changed"):
            await migrate(session, folder=folder)


def test_a_gap_in_the_numbers_is_refused(folder: Path) -> None:
    (folder / "0099_far.sql").write_text("select 1")
    with pytest.raises(MigrationRefused, match="0099_far"):
        read_migrations(folder)


async def test_code_works_one_step_away_and_not_two(database: Database, folder: Path, tmp_path: Path) -> None:
    async with database.pool.session() as session:
        add(folder, "select 1", "newer")
        await check_schema(session, folder=folder)  # the schema is one step older than the code
        add(folder, "select 1", "newest")
        with pytest.raises(SchemaMismatch, match="penstock db migrate"):
            await check_schema(session, folder=folder)
        await migrate(session, folder=folder)

        older = tmp_path / "older"
        older.mkdir()
        for migration in read_migrations(folder)[:-1]:
            (older / f"{migration.name}.sql").write_text(migration.text)
        await check_schema(session, folder=older)  # the schema is one step newer than the code
        assert await migrate(session, folder=older) == []
        (older / f"{read_migrations(older)[-1].name}.sql").unlink()
        with pytest.raises(SchemaMismatch, match="install the newer release"):
            await check_schema(session, folder=older)


async def test_a_database_without_schema_is_named(database: Database) -> None:
    async with database.pool.session() as session:
        await session.execute("drop schema penstock cascade")
        with pytest.raises(SchemaMismatch, match="penstock db migrate"):
            await check_schema(session)
