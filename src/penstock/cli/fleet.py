"""`penstock fleet`: who works, on what, and how busy."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, decoded, duration, print_json, print_table
from penstock.engine import Penstock
from penstock.engine.fleet import sql
from penstock.engine.wording import listed, span


def fleet(
    gone: Annotated[str, typer.Option(help="Also those that left within this time.")] = "1h", as_json: Json = False
) -> None:
    """List the workers, and those that left lately."""
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
