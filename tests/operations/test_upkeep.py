"""What the doctor finds at the server: for each finding a test that causes it, and one in which the command removes it."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine.budget import connections_needed
from penstock.operations import Finding, examine
from penstock.settings import DatabaseUrl
from tests.engine.test_budget import Tenant, tenancy
from tests.operations.test_doctor import obey
from tests.yard import Yard

EACH = connections_needed(4, pooled=False)  # of the yard's workers
STIR = "update penstock.jobs set priority = priority + 1"


async def findings(yard: Yard, name: str, **thresholds: Any) -> list[Finding]:
    return [one for one in await examine(yard.client.settings, **thresholds) if one.name == name]


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def tenant(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Tenant]:
    async with tenancy(database_url, tmp_path) as made:
        yield made


@pytest.fixture
async def small(tenant: Tenant, tmp_path: Path) -> AsyncIterator[Yard]:
    """A yard whose role has room for two workers and a little, of which the client takes nothing: it is somebody else."""
    environ = {
        "PENSTOCK_DATABASE_URL": tenant.url.reveal(),
        "PENSTOCK_HOME": str(tmp_path),
        "PENSTOCK_POOL__SIZE": "4",
        "PENSTOCK_LOG__FORMAT": "json",
    }
    async with Penstock(database_url=tenant.url, home=tmp_path, pool={"size": 1}) as client:
        made = Yard(tmp_path, environ, client)
        try:
            yield made
        finally:
            await made.close()


async def test_connections_that_run_out(small: Yard, tenant: Tenant) -> None:
    await tenant.limit(2 * EACH)
    worker = await small.worker()
    assert await findings(small, "budget") == [], "one more fits"
    await tenant.stranger()
    [finding] = await findings(small, "budget")
    assert (
        f"is {2 * EACH}, 1 worker may open {EACH}, and others have 1 open. Another worker needs {EACH}"
        in finding.sentence
    )
    smaller = (2 * EACH - 1) // 2 - connections_needed(0, pooled=False)
    assert finding.command == f"PENSTOCK_POOL__SIZE={smaller} penstock worker module:app"
    budget = await small.ask("fleet", "--budget")
    assert (budget["promised"], budget["need"], budget["fit"]) == (EACH, EACH, 0)
    assert [one["connections"] for one in budget["workers"]] == [EACH]
    code, said = await small.penstock("fleet", "--budget")
    assert (code, "0 more workers with pool.size 4" in said) == (0, True), said
    worker.process.terminate()
    assert await worker.end() == 0
    await obey(small, finding)
    await tenant.limit(2 * EACH)
    assert await findings(small, "budget") == [], "a smaller one leaves room for another like it"


# -- dead rows --------------------------------------------------------------------------------------------------------


async def make_dead_rows(yard: Yard, number: int = 300) -> None:
    """Real ones, and the server told to count them now."""
    await yard.run("alter table penstock.jobs set (autovacuum_enabled = off)")
    await yard.run("insert into penstock.jobs (lane, args) select 1, '{}' from generate_series(1, $1)", number)
    await yard.run(STIR)
    await yard.run(STIR)
    async with yard.client.transaction() as tx:
        await tx.execute("delete from penstock.jobs")
        await tx.execute("select pg_stat_force_next_flush()")
    await yard.until("select from pg_stat_user_tables where relname = 'jobs' and n_dead_tup >= $1", number)
    await yard.run("alter table penstock.jobs reset (autovacuum_enabled)")


async def test_dead_rows(yard: Yard) -> None:
    await make_dead_rows(yard)
    [finding] = await findings(yard, "bloat", dead_rows=200)
    assert finding.sentence.startswith("The table jobs has ")
    assert finding.command == "penstock db vacuum"
    assert await findings(yard, "bloat") == [], "not worth a word"


async def test_dead_rows_are_removed_by_a_vacuum(yard: Yard) -> None:
    await make_dead_rows(yard)
    [finding] = await findings(yard, "bloat", dead_rows=200)
    code, said = await yard.penstock(*shlex.split(finding.command)[1:])
    assert code == 0, said
    assert "jobs: " in said
    assert ", 0 left, in " in said
    await yard.until("select from pg_stat_user_tables where relname = 'jobs' and n_dead_tup < 200")
    assert await findings(yard, "bloat", dead_rows=200) == []


async def test_autovacuum_that_is_off_and_on_again(yard: Yard) -> None:
    assert await findings(yard, "autovacuum-off") == []
    await yard.run("alter table penstock.job_keys set (autovacuum_enabled = false)")
    [finding] = await findings(yard, "autovacuum-off")
    assert finding.sentence == "Autovacuum is off for the table job_keys: its dead rows stay for ever."
    await obey(yard, finding)
    assert await findings(yard, "autovacuum-off") == []


# -- long transactions ------------------------------------------------------------------------------------------------


async def hold(yard: Yard) -> "asyncpg.Connection[asyncpg.Record]":
    """A transaction with a snapshot that somebody forgot."""
    connection = await asyncpg.connect(yard.client.dsn, server_settings={"application_name": "a report"})
    await connection.execute("begin isolation level repeatable read")
    await connection.fetch("select from penstock.jobs")
    return connection


async def test_a_long_transaction(yard: Yard) -> None:
    connection = await hold(yard)
    assert await findings(yard, "long-transaction") == []
    [finding] = await findings(yard, "long-transaction", long_after=timedelta(0))
    assert finding.sentence.startswith(
        "A transaction of a report (user penstock, idle in transaction) has been open for "
    )
    await connection.execute("commit")
    assert await findings(yard, "long-transaction", long_after=timedelta(0)) == []
    await connection.close()


async def test_a_long_transaction_is_removed_by_ending_its_session(yard: Yard) -> None:
    connection = await hold(yard)
    ended = asyncio.Event()
    connection.add_termination_listener(lambda _: ended.set())
    [finding] = await findings(yard, "long-transaction", long_after=timedelta(0))
    await obey(yard, finding)
    assert await findings(yard, "long-transaction", long_after=timedelta(0)) == []
    await asyncio.wait_for(ended.wait(), 5)
