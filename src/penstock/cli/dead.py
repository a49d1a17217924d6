"""`penstock dead …`: the jobs that failed for good, by cause; another chance for them, or the end."""

from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, decoded, duration, print_json, print_table, shortened
from penstock.cli.jobs import find, print_job
from penstock.engine import Penstock
from penstock.engine.queue import sql
from penstock.engine.redrive import Selection
from penstock.engine.redrive import discard as discard_jobs
from penstock.engine.redrive import redrive as redrive_jobs
from penstock.engine.wording import counted
from penstock.errors import JobNotFound

app = typer.Typer(help="Look at dead jobs, redrive or discard them.", no_args_is_help=True, rich_markup_mode=None)

Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID...]")]
Fingerprint = Annotated[str | None, typer.Option(help="Only those that died of this cause.")]
KindName = Annotated[str | None, typer.Option("--kind", help="Only of this kind.")]


@app.command("list")
def list_dead(
    fingerprint: Fingerprint = None,
    kind: KindName = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """List the causes of death, or the dead jobs of one cause or kind."""
    chosen = fingerprint is not None or kind is not None

    async def look(penstock: Penstock) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        async with penstock.database.pool.session() as session:
            causes = await sql.dead_by_cause(session, most=limit)
            dead = (
                await sql.dead_jobs(session, fingerprint=fingerprint, kind=kind, ids=[], most=limit) if chosen else []
            )
        return [dict(cause) for cause in causes], [decoded(job) for job in dead]

    causes, dead = ask(look)
    if as_json:
        print_json({"jobs": dead} if chosen else {"causes": causes})
    elif not (dead if chosen else causes):
        typer.echo("No dead job matches." if chosen else "No job is dead.")
    elif chosen:
        rows = (
            (job["id"], job["kind"], job["share"], job["attempt"], shortened(job["error"]["message"])) for job in dead
        )
        print_table(("id", "kind", "share", "attempts", "message"), rows)
    else:
        columns = ("fingerprint", "count", "kind", "class", "message", "first_id")
        print_table(columns, ([shortened(str(cause[column])) for column in columns] for cause in causes))


@app.command()
def show(job_id: Annotated[int, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Show a dead job: what it was asked, how it failed, and where."""
    job, sentence = ask(lambda penstock: find(penstock, job_id))
    if job["state"] != "dead":
        raise JobNotFound(f"Job {job_id} is not dead: {sentence}")
    if as_json:
        print_json(job | {"why": sentence})
        return
    typer.echo(sentence)
    print_job(job)


@app.command()
def redrive(
    job_ids: Ids = None,
    fingerprint: Fingerprint = None,
    kind: KindName = None,
    force: Annotated[bool, typer.Option("--force", help="Also when nothing has changed since the failure.")] = False,
    patience: Annotated[str, typer.Option(help="How long to wait for a stage to end.")] = "10m",
    as_json: Json = False,
) -> None:
    """Give dead jobs another chance: 1, then 10, then all; it stops when the same failure returns."""
    selection = Selection(tuple(job_ids or ()), fingerprint, kind)
    wait = duration("--patience", patience)

    def tell(sentence: str) -> None:
        typer.echo(sentence, err=True)

    result = ask(lambda penstock: redrive_jobs(penstock.database, selection, force=force, patience=wait, tell=tell))
    if as_json:
        print_json(vars(result))
    else:
        typer.echo(result.sentence)
    if result.stopped:
        raise typer.Exit(1)


@app.command()
def discard(
    reason: Annotated[str, typer.Option(help="Why; kept in the history.")],
    job_ids: Ids = None,
    fingerprint: Fingerprint = None,
    kind: KindName = None,
    as_json: Json = False,
) -> None:
    """Give dead jobs up, with a reason."""
    selection = Selection(tuple(job_ids or ()), fingerprint, kind)
    discarded = ask(lambda penstock: discard_jobs(penstock.database, selection, reason))
    if as_json:
        print_json({"discarded": discarded, "reason": reason})
    else:
        typer.echo(f"Discarded {counted(len(discarded), 'job')}." if discarded else "No dead job matches.")
