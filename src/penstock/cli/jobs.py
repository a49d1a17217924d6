"""`penstock jobs …`: what is in the queue, and what became of a job."""

import json
from functools import partial
from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, decoded, print_facts, print_json, print_table, shortened
from penstock.engine import Penstock
from penstock.engine.listing import Wanted
from penstock.engine.listing import list_jobs as list_live
from penstock.engine.queue import sql
from penstock.engine.wording import counted
from penstock.errors import BadJob, JobNotFound

app = typer.Typer(help="List, show and cancel jobs.", no_args_is_help=True, rich_markup_mode=None)

STATES = ("ready", "later", "running", "waiting", "dead")
Filter = Annotated[str | None, typer.Option(help="Only of this name.")]


@app.command("list")
def list_jobs(
    state: Annotated[str | None, typer.Option(help=f"Only in this state: {', '.join(STATES)}.")] = None,
    kind: Filter = None,
    queue: Filter = None,
    share: Filter = None,
    after: Annotated[int, typer.Option(help="Only jobs with a larger number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """List the live jobs by number."""
    if state is not None and state not in STATES:
        raise BadJob(
            f"There is no state {state}: use {', '.join(STATES)}; what is over is shown by `penstock jobs show ID`."
        )

    async def look(penstock: Penstock) -> tuple[list[dict[str, Any]], bool]:
        jobs: list[dict[str, Any]] = []
        place: int | None = after
        while place is not None and len(jobs) < limit:
            page = await penstock.database.pool.repeat(
                partial(list_live, wanted=Wanted(state, kind, queue, share), after=place, most=limit - len(jobs))
            )
            jobs += [decoded(row) | {"error": row["error"]} for row in page.jobs]
            place = page.next
        return jobs, place is not None

    jobs, more = ask(look)
    if as_json:
        print_json({"jobs": jobs, "more": more})
        return
    if not jobs:
        typer.echo("No live job matches.")
        return
    columns = ("id", "state", "queue", "kind", "share", "attempt", "failures", "run_at", "error")
    print_table(columns, ([_cell(job[column]) for column in columns] for job in jobs))
    if more:
        typer.echo(f"There are more: penstock jobs list --after {jobs[-1]['id']}", err=True)


def _cell(value: object) -> object:
    if hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return shortened(value) if isinstance(value, str) else value


@app.command()
def show(job_id: Annotated[int, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Show one job, alive or from the history, with its attempts."""
    job, sentence = ask(lambda penstock: find(penstock, job_id))
    if as_json:
        print_json(job | {"why": sentence})
        return
    typer.echo(sentence)
    print_job(job)


@app.command()
def cancel(
    job_ids: Annotated[list[int], typer.Argument(metavar="ID...")],
    reason: Annotated[str, typer.Option(help="Kept in the history.")] = "cancelled by hand",
    as_json: Json = False,
) -> None:
    """Cancel jobs; a running one stops with the next beat of its worker."""
    cancelled = ask(lambda penstock: penstock.cancel(*job_ids, reason=reason))
    missed = sorted(set(job_ids) - set(cancelled))
    if as_json:
        print_json({"cancelled": cancelled, "not_alive": missed})
    elif cancelled:
        typer.echo(f"Cancelled {counted(len(cancelled), 'job')}: {', '.join(map(str, cancelled))}.")
    if missed:
        raise JobNotFound(f"Not alive, and so not cancelled: {', '.join(map(str, missed))}.")


async def find(penstock: Penstock, job_id: int) -> tuple[dict[str, Any], str]:
    """The job, and why it is where it is."""
    row = await penstock.database.pool.repeat(lambda session: sql.find_job.first(session, id=job_id))
    if row is None:
        raise JobNotFound(f"There is no job {job_id}, neither alive nor in the history.")
    return decoded(row), (await penstock.why(job_id)).sentence


def print_job(job: dict[str, Any]) -> None:
    """What a person wants to know of one job."""
    texts = ("args", "result", "progress")
    facts = {
        key: value for key, value in job.items() if key not in {"error", "attempts", *texts} and value is not False
    }
    print_facts(facts | {key: json.dumps(job[key], ensure_ascii=False) for key in texts if job[key] is not None})
    if job["error"]:
        typer.echo()
        print_facts({key: value for key, value in job["error"].items() if key != "traceback"})
        if job["error"].get("traceback"):
            typer.echo("\n" + job["error"]["traceback"].rstrip())
    if job["attempts"]:
        typer.echo()
        columns = ("number", "worker_id", "started_at", "seconds", "outcome", "error")
        print_table(columns, ([_cell(attempt[column]) for column in columns] for attempt in job["attempts"]))
