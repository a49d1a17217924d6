"""The pool: counted, bounded, and never held for nothing."""

import asyncio
import time
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from penstock.database import Database, Pool, open_database
from penstock.database.pool import PoolUse, crowded
from penstock.database.session import connect
from penstock.errors import CallTimedOut, ConnectionLost, HeldTooLong, PoolExhausted
from penstock.settings import DatabaseUrl, PoolSettings, Settings


async def open_pool(url: DatabaseUrl, **values: object) -> Pool:
    settings = PoolSettings.model_validate(values)
    pool = Pool(lambda: connect(url, settings, "test"), settings)
    await pool.open()
    return pool


async def test_the_pool_is_warm_when_it_opens(settings: Settings) -> None:
    warm = settings.model_copy(update={"pool": PoolSettings(size=4, warm=3)})
    async with open_database(warm, role="test") as database:
        assert database.pool.state.open == 3
        assert database.pool.state.used == 0
        async with database.pool.session() as session:
            names = await session.fetch(
                "select application_name from pg_stat_activity where datname = current_database() and state is not null"
            )
    assert sum(row[0].startswith("penstock-test ") for row in names) == 3


async def test_uses_and_waits_are_counted(database_url: DatabaseUrl) -> None:
    pool = await open_pool(database_url, size=1)
    async with pool.session():
        assert pool.state.used == 1
        assert pool.state.use == 1.0
        waiting = asyncio.create_task(pool.repeat(lambda session: session.fetchval("select 1")))
        before = crowded._value.get()
        await asyncio.sleep(0)
        assert pool.state.waiting == 1
    assert await waiting == 1
    assert (pool.state.used, pool.state.waiting) == (0, 0)
    await pool.repeat(lambda session: session.fetchval("select 1"))
    assert crowded._value.get() == before + 1, "who came when one was free did not wait"
    await pool.close()


async def test_the_use_of_a_moment_is_its_mean(database_url: DatabaseUrl) -> None:
    """One of two connections for half of the time is a quarter, whatever is in use when somebody looks."""
    pool = await open_pool(database_url, size=2)
    use = PoolUse(pool)
    began = time.monotonic()
    async with pool.session():
        assert use() == 0.0, "the moment is not over"
        await asyncio.sleep(0.25)
    await asyncio.sleep(0.25)
    async with pool.session(), pool.session():
        seen = use()
        took = time.monotonic() - began
        assert pool.state.use == 1.0
    assert 0.25 / took / 2 <= seen < 0.35 / took / 2 + 0.05
    await pool.close()


async def test_an_exhausted_pool_says_so_in_time(database_url: DatabaseUrl) -> None:
    pool = await open_pool(database_url, size=1, acquire_timeout=0.2)
    async with pool.session():
        began = time.monotonic()
        with pytest.raises(PoolExhausted, match=r"pool\.size"):
            async with pool.session():
                pytest.fail("there was a connection left")
        assert time.monotonic() - began >= 0.2
    await pool.close()


async def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    async with database.pool.session() as session:
        await session.execute("create table penstock.t (n int)")
    with pytest.raises(ZeroDivisionError):
        async with database.pool.transaction() as tx:
            await tx.execute("insert into penstock.t values (1)")
            raise ZeroDivisionError
    async with database.pool.transaction() as tx:
        await tx.execute("insert into penstock.t values (2)")
        with pytest.raises(ZeroDivisionError):
            async with tx.transaction():  # a savepoint
                await tx.execute("insert into penstock.t values (3)")
                raise ZeroDivisionError
    async with database.pool.session() as session:
        assert await session.fetchval("select array_agg(n) from penstock.t") == [2]


async def test_a_call_ends_at_its_deadline_and_the_pool_goes_on(database_url: DatabaseUrl) -> None:
    pool = await open_pool(database_url, size=1, call_timeout=0.3)
    began = time.monotonic()
    with pytest.raises(CallTimedOut):
        async with pool.transaction() as tx:
            await tx.execute("select pg_sleep(5)")
    assert time.monotonic() - began < 5, "the statement would take 5 s"
    async with pool.session() as session:
        assert await session.fetchval("select 1") == 1
    await pool.close()


async def test_a_cancelled_call_gives_its_connection_back(database: Database) -> None:
    async def sleep() -> None:
        async with database.pool.transaction() as tx:
            await tx.execute("select pg_sleep(20)")

    tasks = [asyncio.create_task(sleep()) for _ in range(4)]
    await asyncio.sleep(0.2)
    assert database.pool.state.used == 4
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert database.pool.state.used == 0
    async with database.pool.session() as session:
        assert await session.fetchval("select 1") == 1


async def test_a_read_is_repeated_after_a_lost_connection(database: Database) -> None:
    async with database.pool.session() as session:
        await session.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    results = await asyncio.gather(
        *(database.pool.repeat(lambda session: session.fetchval("select 1")) for _ in range(4))
    )
    assert results == [1, 1, 1, 1]


async def test_a_lost_connection_is_one_exception(database: Database) -> None:
    with pytest.raises(ConnectionLost):
        async with database.pool.transaction() as tx:
            await tx.execute("select pg_terminate_backend(pg_backend_pid())")
    async with database.pool.session() as session:
        assert await session.fetchval("select 1") == 1


async def test_a_connection_that_is_lost_before_the_commit_is_the_same_exception(database: Database) -> None:
    """The driver refuses to send the COMMIT, with an error of its own."""
    with pytest.raises(ConnectionLost):
        async with database.pool.transaction() as tx:
            await tx.execute("create table penstock.things (n int)")
            tx.terminate()
    async with database.pool.session() as session:
        assert await session.fetchval("select to_regclass('penstock.things')") is None


async def test_holding_a_connection_idle_is_logged_with_its_place(database: Database) -> None:
    with capture_logs() as logs:
        async with database.pool.transaction() as tx:
            await asyncio.sleep(0.4)
            await tx.execute("select 1")
        async with database.pool.transaction() as tx:  # slow statements are not idle
            await tx.execute("select pg_sleep(0.4)")
        async with database.pool.session():  # and neither is a session without a transaction
            await asyncio.sleep(0.4)
    held = [entry for entry in logs if entry["event"] == "connection held idle in a transaction"]
    assert len(held) == 1
    assert "test_pool.py" in held[0]["place"]
    assert "test_holding_a_connection_idle" in held[0]["place"]
    assert held[0]["seconds"] >= 0.25


async def test_holding_too_long_is_an_error_in_tests(database: Database, settings: Settings) -> None:
    assert settings.pool.hold_limit == timedelta(seconds=2)
    with pytest.raises(HeldTooLong):
        async with database.pool.transaction() as tx:
            await asyncio.sleep(2.6)
            await tx.execute("select 1")
    async with database.pool.session() as session:
        assert await session.fetchval("select 1") == 1
