"""What the doctor finds at the server: for each finding a test that causes it, and one in which the command removes it."""

import asyncio
import shlex
from datetime import timedelta
from typing import Any

import asyncpg

from penstock.engine.connection_budget import connections_needed
from penstock.operations import Finding, examine, examine_and_fix
from tests.application import Application
from tests.engine.limited_role import LimitedRole
from tests.operations.advice import EACH, obey

STIR = "update penstock.jobs set priority = priority + 1"


async def findings(application: Application, name: str, **thresholds: Any) -> list[Finding]:
    return [one for one in await examine(application.client.settings, **thresholds) if one.name == name]


# -- connections ------------------------------------------------------------------------------------------------------


async def test_connections_that_run_out(limited_application: Application, limited_role: LimitedRole) -> None:
    await limited_role.limit(2 * EACH)
    worker = await limited_application.worker()
    assert await findings(limited_application, "budget") == [], "one more fits"
    await limited_role.stranger()
    [finding] = await findings(limited_application, "budget")
    assert (
        f"is {2 * EACH}, 1 worker may open {EACH}, and other clients have 1 open. Another worker needs {EACH}"
        in finding.sentence
    )
    smaller = (2 * EACH - 1) // 2 - connections_needed(0, pooled=False)
    assert finding.command == f"PENSTOCK_POOL__SIZE={smaller} penstock worker module:app"
    budget = await limited_application.ask("fleet", "--budget")
    assert (budget["promised"], budget["need"], budget["fit"]) == (EACH, EACH, 0)
    assert [one["connections"] for one in budget["workers"]] == [EACH]
    code, said = await limited_application.penstock("fleet", "--budget")
    assert (code, "0 more workers with pool.size 4" in said) == (0, True), said
    worker.process.terminate()
    assert await worker.end() == 0
    await obey(limited_application, finding)
    await limited_role.limit(2 * EACH)
    assert await findings(limited_application, "budget") == [], "a smaller one leaves room for another like it"


# -- dead rows --------------------------------------------------------------------------------------------------------


async def make_dead_rows(application: Application, number: int = 300) -> None:
    """Real ones, and the server told to count them now. The database may have served another test before."""
    await application.run("vacuum")
    await application.run("alter table penstock.jobs set (autovacuum_enabled = off)")
    await application.run("insert into penstock.jobs (lane, args) select 1, '{}' from generate_series(1, $1)", number)
    await application.run(STIR)
    await application.run(STIR)
    async with application.client.transaction() as tx:
        await tx.execute("delete from penstock.jobs")
        await tx.execute("select pg_stat_force_next_flush()")
    await application.until("select from pg_stat_user_tables where relname = 'jobs' and n_dead_tup >= $1", number)
    await application.run("alter table penstock.jobs reset (autovacuum_enabled)")


async def test_dead_rows(application: Application) -> None:
    await make_dead_rows(application)
    [finding] = await findings(application, "bloat", dead_rows=200)
    assert finding.sentence.startswith("The table jobs has ")
    assert finding.command == "penstock db vacuum"
    assert await findings(application, "bloat") == [], "not worth a word"


async def test_dead_rows_are_removed_by_a_vacuum(application: Application) -> None:
    await make_dead_rows(application)
    [finding] = await findings(application, "bloat", dead_rows=200)
    code, said = await application.penstock(*shlex.split(finding.command)[1:])
    assert code == 0, said
    assert "jobs: " in said
    assert ", 0 left, in " in said
    await application.until("select from pg_stat_user_tables where relname = 'jobs' and n_dead_tup < 200")
    assert await findings(application, "bloat", dead_rows=200) == []


async def test_a_vacuum_that_could_not_remove_them_is_not_called_a_fix(application: Application) -> None:
    connection = await hold(application)  # its snapshot may still see them
    await make_dead_rows(application)
    _, [attempt] = await examine_and_fix(application.client.settings, dead_rows=200)
    assert attempt.sentence == "Could not fix bloat: Vacuumed the table jobs. It is found again all the same."
    await connection.execute("commit")
    await connection.close()
    findings, [attempt] = await examine_and_fix(application.client.settings, dead_rows=200)
    assert attempt.sentence == "Fixed bloat: Vacuumed the table jobs."
    assert "bloat" not in [finding.name for finding in findings]


async def test_autovacuum_that_is_off_and_on_again(application: Application) -> None:
    assert await findings(application, "autovacuum-off") == []
    await application.run("alter table penstock.job_keys set (autovacuum_enabled = false)")
    [finding] = await findings(application, "autovacuum-off")
    assert finding.sentence == "Autovacuum is off for the table job_keys: its dead rows are never removed."
    await obey(application, finding)
    assert await findings(application, "autovacuum-off") == []


# -- long transactions ------------------------------------------------------------------------------------------------


async def hold(application: Application) -> "asyncpg.Connection[asyncpg.Record]":
    """A transaction with a snapshot that somebody forgot."""
    connection = await asyncpg.connect(application.client.dsn, server_settings={"application_name": "a report"})
    await connection.execute("begin isolation level repeatable read")
    await connection.fetch("select from penstock.jobs")
    return connection


async def test_a_long_transaction(application: Application) -> None:
    connection = await hold(application)
    assert await findings(application, "long-transaction") == []
    [finding] = await findings(application, "long-transaction", long_after=timedelta(0))
    assert finding.sentence.startswith(
        "A transaction of a report (user penstock, idle in transaction) has been open for "
    )
    await connection.execute("commit")
    assert await findings(application, "long-transaction", long_after=timedelta(0)) == []
    await connection.close()


async def test_a_long_transaction_is_removed_by_ending_its_session(application: Application) -> None:
    connection = await hold(application)
    ended = asyncio.Event()
    connection.add_termination_listener(lambda _: ended.set())
    [finding] = await findings(application, "long-transaction", long_after=timedelta(0))
    await obey(application, finding)
    assert await findings(application, "long-transaction", long_after=timedelta(0)) == []
    await asyncio.wait_for(ended.wait(), 5)
