"""Findings about the PostgreSQL server: connections that run out, tables without vacuum or statistics, long transactions."""

from collections.abc import Iterator
from datetime import timedelta

from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine import HOT_TABLES, ConnectionBudget, connections_needed, read_budget
from penstock.operations.doctor.finding import START, Finding
from penstock.settings import Settings
from penstock.text import counted, span

sql = statements(__file__)

DEAD_ROWS = 100_000  # of a table: more of them are bloat
LONG_AFTER = timedelta(minutes=5)  # a transaction
MANY_ROWS = 50_000  # changed since the statistics were taken


async def examine_server(
    session: Session,
    settings: Settings,
    *,
    pooled: bool,
    dead_rows: int = DEAD_ROWS,
    long_after: timedelta = LONG_AFTER,
    many_rows: int = MANY_ROWS,
) -> list[Finding]:
    tables = list(HOT_TABLES)
    budget = await read_budget(session, connections_needed(settings.pool.size, pooled=pooled), pooled=pooled)
    return [
        *_examine_budget(budget),
        *_examine_bloat(await sql.dead_rows(session, tables=tables, least=dead_rows)),
        *_examine_autovacuum(await sql.unvacuumed(session, tables=tables)),
        *_examine_statistics(await sql.unmeasured(session, least=many_rows)),
        *_examine_transactions(await sql.long_transactions(session, long_after=long_after)),
    ]


def _examine_budget(budget: ConnectionBudget) -> Iterator[Finding]:
    """Too few connections are left for one more worker: the next deploy would wait."""
    workers = len(budget.allowances)
    need = max((connections for _, connections in budget.allowances), default=0) or budget.need
    if budget.free >= need:
        return
    limit = budget.tightest
    said = (
        f"Connections run out: {limit.name} is {limit.size}, {counted(workers, 'worker')} may open {budget.promised}, and "
        f"other clients have {limit.others} open. Another worker needs {need} and would wait. Start all workers with a smaller "
        "pool, or raise the limit."
    )
    smaller = (limit.size - limit.others) // (workers + 1) - connections_needed(0, pooled=budget.pooled)
    command = (
        f"PENSTOCK_POOL__SIZE={smaller} {START}" if smaller >= 1 and not budget.pooled else "penstock fleet --budget"
    )
    evidence = {"limit": limit.size, "promised": budget.promised, "others": limit.others, "need": need}
    yield Finding("budget", said, command, evidence)


def _examine_bloat(tables: list[Record]) -> Iterator[Finding]:
    for table in tables:
        said = f"The table {table['name']} has {table['dead']:,} dead and {table['live']:,} live rows: scans read both."
        yield Finding("bloat", said, "penstock db vacuum", dict(table), subject=table["name"])


def _examine_autovacuum(tables: list[Record]) -> Iterator[Finding]:
    for table in tables:
        if table["name"] is None:
            said = "Autovacuum is off for the whole server: dead rows are never removed."
            command = 'penstock db psql -c "alter system set autovacuum = on" -c "select pg_reload_conf()"'
        else:
            said = f"Autovacuum is off for the table {table['name']}: its dead rows are never removed."
            command = f'penstock db psql -c "alter table penstock.{table["name"]} reset (autovacuum_enabled)"'
        yield Finding("autovacuum-off", said, command, dict(table), subject=table["name"] or "")


def _examine_statistics(tables: list[Record]) -> Iterator[Finding]:
    for table in tables:
        said = (
            f"The statistics of the table {table['name']} are old: {table['changed']:,} of its "
            f"{table['live']:,} rows have changed since the last analyze, and the planner guesses."
        )
        command = f'penstock db psql -c "analyze penstock.{table["name"]}"'
        yield Finding("statistics-stale", said, command, dict(table), subject=table["name"])


def _examine_transactions(transactions: list[Record]) -> Iterator[Finding]:
    for one in transactions:
        said = (
            f"A transaction of {one['application_name'] or 'an unnamed program'} (user {one['usename']}, {one['state']}) has "
            f"been open for {span(one['age'])}: vacuum cannot remove newer dead rows. Let it end, or end it:"
        )
        command = f'penstock db psql -c "select pg_terminate_backend({one["pid"]})"'
        yield Finding("long-transaction", said, command, dict(one), subject=str(one["pid"]))
