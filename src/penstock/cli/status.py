"""`penstock status`: what is wrong, and then how many of everything."""

from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, print_json, print_table
from penstock.engine import Penstock


def status(
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Only what belongs to it.")] = None,
    as_json: Json = False,
) -> None:
    """Say first what is wrong, then how many documents, jobs and workers there are."""

    async def look(penstock: Penstock) -> dict[str, Any]:
        from penstock.operations.status import read_status

        return await read_status(penstock, collection=collection, tenant=penstock.settings.tenant)

    facts = ask(look)
    if as_json:
        print_json(facts)
        return
    for problem in facts["problems"]:
        typer.secho("! ", fg="red", bold=True, nl=False)
        typer.echo(problem)
    if not facts["problems"]:
        typer.secho("All is well.", fg="green")
    typer.echo()
    print_table(("documents", *facts["documents"]), [("", *map(_number, facts["documents"].values()))])
    typer.echo()
    jobs = facts["jobs"]
    rows = [(what, *(_number(jobs[state][what]) for state in jobs)) for what in ("count", "leased", "attempted")]
    print_table(("jobs", *jobs), rows)
    if facts["workers"]:
        typer.echo()
        print_table(("worker", "status", "running", "documents"), map(_worker, facts["workers"]))


def _number(count: int) -> str:
    return f"{count:,}"


def _worker(worker: dict[str, Any]) -> tuple[object, ...]:
    busy = f"{worker['running']}/{worker['slots']}"
    return worker["name"], worker["status"], busy, "yes" if worker["serves_documents"] else "no"
