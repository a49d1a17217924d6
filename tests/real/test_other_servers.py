"""PostgreSQL 15, the oldest one that is supported, run by the same supervisor from Debian's programs."""

import asyncio
from pathlib import Path

import pytest

from penstock import Context, JobDead, Penstock, Permanent, RateLimited
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
    await work_a_little(home)
    code, said = await penstock("db", "start", PENSTOCK_HOME=str(home))
    assert (code, "was made by PostgreSQL 15" in said) == (2, True), "the shipped programs do not touch it"


async def work_a_little(home: Path) -> None:
    """The engine's own statements on the oldest server: claim, retry, finish, bury, explain."""
    app = Penstock(home=home, postgres={"binaries": DEBIAN})

    @app.job()
    async def double(ctx: Context, n: int) -> int:
        if ctx.attempt == 1:
            raise RateLimited(retry_after=0.05)
        async with ctx.finish(result=2 * n) as tx:
            await tx.execute("create table if not exists penstock.effects (n int)")
        return 0

    @app.job()
    async def refuse(ctx: Context) -> None:
        raise Permanent("no")

    async with app:
        stop = asyncio.Event()
        work = asyncio.create_task(app.work(stop=stop, concurrency=5))
        assert await app.result(await app.enqueue(double(n=21), unique="once"), timeout="20s") == 42
        dead = await app.enqueue(refuse())
        with pytest.raises(JobDead, match="no"):
            await app.result(dead, timeout="20s")
        assert (await app.why(dead)).because == "dead"
        stop.set()
        await work
