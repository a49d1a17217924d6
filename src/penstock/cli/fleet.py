"""`penstock fleet`: the workers and the connections that they share. `penstock limits`: permits and breakers."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli.session import Json, ask, did_you_mean, duration, group, print_json, print_table
from penstock.engine import (
    ConnectionBudget,
    Penstock,
    WorkerState,
    connections_needed,
    list_workers,
    read_budget,
)
from penstock.engine.limits import LimitState, choose_permits, close_breaker, list_limits, unchoose_permits
from penstock.errors import BadJob
from penstock.settings import load_settings
from penstock.text import counted, listed, span

limits_app = group("List limits, close breakers and set permits.")

LimitName = Annotated[str, typer.Argument(metavar="LIMIT", help="Name of the limit.")]


def fleet(
    gone: Annotated[str, typer.Option(help="Include workers that left within this time.")] = "1h",
    budget: Annotated[
        bool, typer.Option("--budget", help="Show the database connections that workers may open.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the workers, and those that left recently."""
    if budget:
        _print_budget(as_json=as_json)
        return
    within = duration("--gone", gone)

    async def read(penstock: Penstock) -> list[WorkerState]:
        return await penstock.database.pool.repeat(lambda session: list_workers(session, within))

    workers = ask(read)
    if as_json:
        print_json([_as_json(worker) for worker in workers])
        return
    if all(worker.status == "gone" for worker in workers):
        typer.echo("No worker is running: start one with `penstock worker module:app`.")
    if workers:
        print_table(
            ("id", "worker", "status", "running", "pool", "queues", "kinds", "heartbeat", "code"), map(_cells, workers)
        )


def _print_budget(*, as_json: bool) -> None:
    pool_size = load_settings().settings.pool.size  # this command itself has a smaller one

    async def read(penstock: Penstock) -> ConnectionBudget:
        pooled = penstock.database.endpoint.address.pooled
        need = connections_needed(pool_size, pooled=pooled)
        return await penstock.database.pool.repeat(lambda session: read_budget(session, need, pooled=pooled))

    budget = ask(read)
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
        ("limit", "connections", "used by others"), ((each.name, each.size, each.others) for each in budget.limits)
    )
    if budget.allowances:
        print_table(("worker", "may open"), budget.allowances)
    typer.echo(
        f"{max(0, budget.free)} of {budget.tightest.size} are free: {counted(more, 'more worker')} with pool.size {pool_size} "
        f"({budget.need} connections) {'fits' if more == 1 else 'fit'}."
    )
    if budget.pooled:
        typer.echo("With a pooler, only direct connections are counted: those that it opens at the server are unknown.")


def _status(worker: WorkerState) -> str:
    return f"gone: {worker.gone_why}" if worker.status == "gone" else worker.status


def _as_json(worker: WorkerState) -> dict[str, Any]:
    facts = asdict(worker)
    del facts["lease_seconds"]  # here it is `lease`
    return facts | {"status": _status(worker)}


def _cells(worker: WorkerState) -> tuple[object, ...]:
    load = worker.load
    return (
        worker.id,
        worker.name,
        _status(worker),
        f"{worker.running}/{worker.slots}",
        f"{load['pool']}/{load['pool_size']}" if "pool_size" in load else "",
        listed(worker.queues),
        listed(worker.kinds),
        f"{span(max(worker.silent_for, timedelta(0)))} ago",
        load.get("code", worker.version),
    )


# -- limits ---------------------------------------------------------------------------------------------------------


@limits_app.command("list")
def limits(as_json: Json = False) -> None:
    """List the limits with their permits, workers and breakers."""
    found = ask(_read_limits)
    if as_json:
        print_json([limit.as_json() for limit in found])
        return
    if not found:
        typer.echo('No limit exists: an application declares one with app.limit("name", permits), and runs a worker.')
        return
    columns = ("limit", "worker", "granted", "used", "waiting", "concurrency", "breaker")
    print_table(columns, (cells for limit in found for cells in _rows(limit)))


async def _read_limits(penstock: Penstock) -> list[LimitState]:
    return await penstock.database.pool.repeat(list_limits)


def _rows(limit: LimitState) -> Iterator[tuple[object, ...]]:
    """A line for the fleet, and one for each worker."""
    used, granted = f"{limit.used}/{limit.permits}", f"{limit.granted}/{limit.permits}"
    name = limit.name if limit.chosen is None else f"{limit.name} (set by hand)"
    yield (
        name,
        f"all {len(limit.workers)}",
        granted,
        used,
        limit.waiting,
        f"{limit.concurrency:.1f}",
        limit.breaker_words,
    )
    for worker in limit.workers:
        numbers = (worker["granted"], worker["used"], worker["waiting"], f"{worker['concurrency']:.1f}")
        yield "", worker["worker"], *numbers, ""


@limits_app.command("close")
def close(name: LimitName, as_json: Json = False) -> None:
    """Close a breaker: let calls through without waiting for a probe."""

    async def close_one(penstock: Penstock) -> bool:
        known = {limit.name for limit in await _read_limits(penstock)}
        if name not in known:
            raise BadJob(f"Limit {name} does not exist.{did_you_mean(name, known)} `penstock limits list` shows all.")
        async with penstock.transaction() as tx:
            return await close_breaker(tx, name)

    closed = ask(close_one)
    if as_json:
        print_json({"limit": name, "closed": closed})
    else:
        typer.echo(f"The breaker of {name} is closed." if closed else f"The breaker of {name} was closed already.")


@limits_app.command("set")
def set_permits(
    name: LimitName,
    permits: Annotated[int, typer.Argument(min=1, help="Permits for all workers together.")],
    as_json: Json = False,
) -> None:
    """Set the permits of a limit, whatever workers declare. They apply from the next heartbeat."""

    async def choose(penstock: Penstock) -> None:
        async with penstock.transaction() as tx:
            await choose_permits(tx, name, permits)

    ask(choose)
    if as_json:
        print_json({"limit": name, "permits": permits})
    else:
        typer.echo(f"{name} has {counted(permits, 'permit')}, until `penstock limits reset {name}`.")


@limits_app.command("reset")
def reset(name: LimitName, as_json: Json = False) -> None:
    """Undo `set`: the next worker that starts declares the permits."""

    async def forget(penstock: Penstock) -> bool:
        async with penstock.transaction() as tx:
            return await unchoose_permits(tx, name)

    done = ask(forget)
    if as_json:
        print_json({"limit": name, "reset": done})
    else:
        typer.echo(
            f"The next worker that starts declares the permits of {name}."
            if done
            else f"The permits of {name} were not set by hand."
        )
