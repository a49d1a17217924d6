"""`penstock limits`: who has how many permits of what, and which breakers are open; `close` ends a rest, `set` changes it."""

from collections.abc import Iterator
from typing import Annotated

import typer

from penstock.cli.asking import Json, ask, print_json, print_table
from penstock.engine import Penstock
from penstock.engine.limits import LimitState, choose_permits, list_limits, unchoose_permits
from penstock.engine.permits import close_breaker
from penstock.engine.wording import counted
from penstock.errors import BadJob

app = typer.Typer(help="Show the limits, close a breaker, set permits.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def limits(context: typer.Context, as_json: Json = False) -> None:
    """List the limits: their permits, who uses them, and their breakers."""
    if context.invoked_subcommand is not None:
        return
    found = ask(_look)
    if as_json:
        print_json([limit.as_json() for limit in found])
        return
    if not found:
        typer.echo('There is no limit: an application declares one with app.limit("name", permits), and runs a worker.')
        return
    columns = ("limit", "worker", "granted", "used", "waiting", "level", "breaker")
    print_table(columns, (cells for limit in found for cells in _rows(limit)))


async def _look(penstock: Penstock) -> list[LimitState]:
    return await penstock.database.pool.repeat(list_limits)


def _rows(limit: LimitState) -> Iterator[tuple[object, ...]]:
    """A line for the fleet, and one for each worker."""
    used, granted = f"{limit.used}/{limit.permits}", f"{limit.granted}/{limit.permits}"
    name = limit.name if limit.chosen is None else f"{limit.name} (set by hand)"
    yield name, f"all {len(limit.workers)}", granted, used, limit.waiting, f"{limit.level:.1f}", limit.breaker
    for worker in limit.workers:
        numbers = (worker["granted"], worker["used"], worker["waiting"], f"{worker['level']:.1f}")
        yield "", worker["worker"], *numbers, ""


@app.command("close")
def close(name: Annotated[str, typer.Argument(help="The limit.")], as_json: Json = False) -> None:
    """Let calls through again without waiting for a probe."""

    async def mend(penstock: Penstock) -> bool:
        known = {limit.name for limit in await _look(penstock)}
        if name not in known:
            raise BadJob(f"There is no limit {name}: there are {', '.join(sorted(known)) or 'none'}.")
        async with penstock.transaction() as tx:
            return await close_breaker(tx, name)

    closed = ask(mend)
    if as_json:
        print_json({"limit": name, "closed": closed})
    else:
        typer.echo(f"The breaker of {name} is closed." if closed else f"The breaker of {name} was closed already.")


@app.command("set")
def set_permits(
    name: Annotated[str, typer.Argument(help="The limit.")],
    permits: Annotated[int, typer.Argument(min=1, help="For all workers together.")],
    as_json: Json = False,
) -> None:
    """Give a limit this many permits, whatever workers declare; they use them from their next beat on."""

    async def choose(penstock: Penstock) -> None:
        async with penstock.transaction() as tx:
            await choose_permits(tx, name, permits)

    ask(choose)
    if as_json:
        print_json({"limit": name, "permits": permits})
    else:
        typer.echo(f"{name} has {counted(permits, 'permit')}, until `penstock limits reset {name}`.")


@app.command("reset")
def reset(name: Annotated[str, typer.Argument(help="The limit.")], as_json: Json = False) -> None:
    """Let what the workers declare count again, from the next one on that starts."""

    async def forget(penstock: Penstock) -> bool:
        async with penstock.transaction() as tx:
            return await unchoose_permits(tx, name)

    done = ask(forget)
    if as_json:
        print_json({"limit": name, "reset": done})
    else:
        typer.echo(f"{name} has what the next worker declares." if done else f"Nobody had set the permits of {name}.")
