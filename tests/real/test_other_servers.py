"""PostgreSQL 15, the oldest one that is supported, run by the same supervisor from Debian's programs."""

from pathlib import Path

from penstock.database import open_database
from penstock.settings import PostgresSettings, Settings
from tests.processes import penstock
from tests.real.conftest import need_program

DEBIAN = Path("/usr/lib/postgresql/15")


async def test_postgres_15(home: Path) -> None:
    need_program("initdb", "postgresql-15", str(DEBIAN / "bin"))
    settings = Settings(home=home, postgres=PostgresSettings(binaries=DEBIAN))
    async with open_database(settings, role="test") as database:
        assert database.notifications.arriving
        async with database.pool.session() as session:
            assert (await session.fetchval("show server_version")).startswith("15.")
            assert await session.fetchval("select penstock.now() = statement_timestamp()")
    code, said = await penstock("db", "start", PENSTOCK_HOME=str(home))
    assert (code, "was made by PostgreSQL 15" in said) == (2, True), "the shipped programs do not touch it"
