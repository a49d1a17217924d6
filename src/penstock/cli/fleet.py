"""`penstock fleet`: who works, on what, and how busy."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, decoded, duration, print_json, print_table
from penstock.engine import Penstock
from penstock.engine.budget import Budget, connections_needed, read_budget
from penstock.engine.fleet import sql
from penstock.engine.wording import counted, listed, span
from penstock.settings import load_settings


def fleet(
    gone: Annotated[str, typer.Option(help="Also those that left within this time.")] = "1h",
    budget: Annotated[
        bool, typer.Option("--budget", help="Instead, the connections that the workers may open.")
    ] = False,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Say that it is known why workers were lost: doctor tells later ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the workers, and those that left lately."""
    if acknowledge:
        _acknowledge(as_json=as_json)
        return
    if budget:
        _print_budget(as_json=as_json)
        return
    within = duration("--gone", gone)

    async def look(penstock: Penstock) -> list[dict[str, Any]]:
        rows = await penstock.database.pool.repeat(lambda session: sql.workers(session, gone_within=within))
        return [decoded(row) | {"status": _status(row)} for row in rows]

    workers = ask(look)
    if as_json:
        print_json(workers)
        return
    if not any(worker["gone_at"] is None for worker in workers):
        typer.echo("No worker is running: start one with `penstock worker module:app`.")
    if workers:
        print_table(
            ("id", "worker", "status", "running", "pool", "queues", "kinds", "beat", "code"), map(_cells, workers)
        )


def _acknowledge(*, as_json: bool) -> None:
    known = ask(lambda penstock: penstock.database.pool.repeat(sql.acknowledge_lost))
    if as_json:
        print_json({"acknowledged": [row["id"] for row in known]})
    else:
        typer.echo(f"{counted(len(known), 'lost worker')} known: doctor tells of those that are lost from now on.")


def _print_budget(*, as_json: bool) -> None:
    pool_size = load_settings().settings.pool.size  # this command itself has a smaller one

    async def look(penstock: Penstock) -> Budget:
        pooled = penstock.database.reached.address.pooled
        need = connections_needed(pool_size, pooled=pooled)
        return await penstock.database.pool.repeat(lambda session: read_budget(session, need, pooled=pooled))

    budget = ask(look)
    more = max(0, budget.free // budget.need)
    facts = {
        "limits": [vars(limit) for limit in budget.limits],
        "workers": [{"worker": name, "connections": connections} for name, connections in budget.allowances],
        "promised": budget.promised,
        "others": budget.tightest.others,
        "free": budget.free,
        "pool_size": pool_size,
        "need": budget.need,
        "fit": more,
        "pooled": budget.pooled,
    }
    if as_json:
        print_json(facts)
        return
    print_table(
        ("limit", "connections", "others have"), ((each.name, each.size, each.others) for each in budget.limits)
    )
    if budget.allowances:
        print_table(("worker", "may open"), budget.allowances)
    typer.echo(
        f"{max(0, budget.free)} of {budget.tightest.size} are free: {counted(more, 'more worker')} with pool.size {pool_size} "
        f"({budget.need} connections) {'fits' if more == 1 else 'fit'}."
    )
    if budget.pooled:
        typer.echo(
            "Behind a pooler only the connections past it are counted: what it opens at the server is not known."
        )


def _status(row: Any) -> str:
    if row["gone_at"] is not None:
        return f"gone: {row['gone_why']}"
    if row["silent_for"] > row["lease"]:
        return "silent"
    return "draining" if row["draining"] else "alive"


def _cells(worker: dict[str, Any]) -> tuple[object, ...]:
    load, silence = worker["load"], max(worker["silent_for"], timedelta(0))
    pool = f"{load['pool']}/{load['pool_size']}" if "pool_size" in load else ""
    return (
        worker["id"],
        worker["name"],
        worker["status"],
        f"{worker['running']}/{worker['slots']}",
        pool,
        listed(worker["queues"]),
        listed(worker["kinds"]),
        f"{span(silence)} ago",
        load.get("code", worker["version"]),
    )
