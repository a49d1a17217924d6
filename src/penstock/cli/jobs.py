"""`penstock jobs`: list, show, cancel. `penstock dead`: dead letters, to redrive or discard. `penstock pause` and `resume`."""

import json
from typing import Annotated, Any

import typer

from penstock.cli.session import Json, Most, ask, decoded, duration, print_facts, print_json, print_table, shortened
from penstock.engine import Penstock, find_job
from penstock.engine.inspect import JobFilter, Selection, dead_by_cause, dead_jobs
from penstock.engine.inspect import discard as discard_jobs
from penstock.engine.inspect import list_jobs as list_live
from penstock.engine.inspect import redrive as redrive_jobs
from penstock.errors import BadJob, JobNotFound
from penstock.text import counted

app = typer.Typer(help="List, show and cancel jobs.", no_args_is_help=True, rich_markup_mode=None)
dead_app = typer.Typer(help="Look at dead jobs, redrive or discard them.", no_args_is_help=True, rich_markup_mode=None)

STATES = ("ready", "later", "running", "waiting", "dead")
Filter = Annotated[str | None, typer.Option(help="Only of this name.")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID...]")]
Fingerprint = Annotated[str | None, typer.Option(help="Only those that died of this cause.")]
OptionalKind = Annotated[str | None, typer.Option("--kind", help="Only of this kind.")]
Queue = Annotated[str, typer.Option(help="The queue.")]
KindName = Annotated[str, typer.Option("--kind", help="The kind.")]
FairnessKey = Annotated[str, typer.Option(help="The fairness key.")]


@app.command("list")
def list_jobs(
    state: Annotated[str | None, typer.Option(help=f"Only in this state: {', '.join(STATES)}.")] = None,
    kind: Filter = None,
    queue: Filter = None,
    fairness_key: Filter = None,
    after: Annotated[int, typer.Option(help="Only jobs with a larger number.")] = 0,
    limit: Most = 50,
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
                list_live, wanted=JobFilter(state, kind, queue, fairness_key), after=place, most=limit - len(jobs)
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
    columns = ("id", "state", "queue", "kind", "fairness_key", "attempt", "failures", "run_at", "error")
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
    job, sentence = ask(lambda penstock: _find(penstock, job_id))
    _print_job(job, sentence, as_json=as_json)


@app.command()
def cancel(
    job_ids: Annotated[list[int], typer.Argument(metavar="ID...")],
    reason: Annotated[str, typer.Option(help="Kept in the history.")] = "cancelled by hand",
    as_json: Json = False,
) -> None:
    """Cancel jobs; a running one stops with the next heartbeat of its worker."""
    cancelled = ask(lambda penstock: penstock.cancel(*job_ids, reason=reason))
    missed = sorted(set(job_ids) - set(cancelled))
    if as_json:
        print_json({"cancelled": cancelled, "not_alive": missed})
    elif cancelled:
        typer.echo(f"Cancelled {counted(len(cancelled), 'job')}: {', '.join(map(str, cancelled))}.")
    if missed:
        raise JobNotFound(f"Not alive, and so not cancelled: {', '.join(map(str, missed))}.")


async def _find(penstock: Penstock, job_id: int) -> tuple[dict[str, Any], str]:
    found = await penstock.database.pool.repeat(find_job, job_id)
    if found is None:
        raise JobNotFound(f"There is no job {job_id}, neither alive nor in the history.")
    return found, (await penstock.why(job_id)).sentence


def _print_job(job: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(job | {"why": sentence})
        return
    typer.echo(sentence)
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


# -- dead letters ---------------------------------------------------------------------------------------------------


@dead_app.command("list")
def list_dead(
    fingerprint: Fingerprint = None,
    kind: OptionalKind = None,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the causes of death, or the dead jobs of one cause or kind."""
    chosen = fingerprint is not None or kind is not None

    async def look(penstock: Penstock) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        async with penstock.database.pool.session() as session:
            causes = await dead_by_cause(session, limit)
            dead = await dead_jobs(session, fingerprint=fingerprint, kind=kind, most=limit) if chosen else []
        return [dict(cause) for cause in causes], [decoded(job) for job in dead]

    causes, dead = ask(look)
    if as_json:
        print_json({"jobs": dead} if chosen else {"causes": causes})
    elif not (dead if chosen else causes):
        typer.echo("No dead job matches." if chosen else "No job is dead.")
    elif chosen:
        rows = (
            (job["id"], job["kind"], job["fairness_key"], job["attempt"], shortened(job["error"]["message"]))
            for job in dead
        )
        print_table(("id", "kind", "fairness_key", "attempts", "message"), rows)
    else:
        columns = ("fingerprint", "count", "kind", "class", "message", "first_id")
        print_table(columns, ([shortened(str(cause[column])) for column in columns] for cause in causes))


@dead_app.command("show")
def show_dead(job_id: Annotated[int, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Show a dead job: what it was asked, how it failed, and where."""
    job, sentence = ask(lambda penstock: _find(penstock, job_id))
    if job["state"] != "dead":
        raise JobNotFound(f"Job {job_id} is not dead: {sentence}")
    _print_job(job, sentence, as_json=as_json)


@dead_app.command()
def redrive(
    job_ids: Ids = None,
    fingerprint: Fingerprint = None,
    kind: OptionalKind = None,
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


@dead_app.command()
def discard(
    reason: Annotated[str, typer.Option(help="Why; kept in the history.")],
    job_ids: Ids = None,
    fingerprint: Fingerprint = None,
    kind: OptionalKind = None,
    as_json: Json = False,
) -> None:
    """Give dead jobs up, with a reason."""
    selection = Selection(tuple(job_ids or ()), fingerprint, kind)
    discarded = ask(lambda penstock: discard_jobs(penstock.database, selection, reason))
    if as_json:
        print_json({"discarded": discarded, "reason": reason})
    else:
        typer.echo(f"Discarded {counted(len(discarded), 'job')}." if discarded else "No dead job matches.")


# -- pauses ---------------------------------------------------------------------------------------------------------


def pause(
    queue: Queue = "",
    kind: KindName = "",
    fairness_key: FairnessKey = "",
    reason: Annotated[str, typer.Option(help="Shown by why and doctor.")] = "paused by hand",
    as_json: Json = False,
) -> None:
    """Claim nothing of a queue, a kind or a fairness key until resume; what runs goes on."""
    what, name = _chosen(queue, kind, fairness_key)

    ask(lambda penstock: penstock.pause(queue=queue, kind=kind, fairness_key=fairness_key, reason=reason))
    if as_json:
        print_json({"paused": {"what": what, "name": name, "reason": reason}})
    else:
        typer.echo(f"The {_spoken(what)} {name} is paused.")


def resume(queue: Queue = "", kind: KindName = "", fairness_key: FairnessKey = "", as_json: Json = False) -> None:
    """End a pause."""
    what, name = _chosen(queue, kind, fairness_key)
    resumed = ask(lambda penstock: penstock.resume(queue=queue, kind=kind, fairness_key=fairness_key))
    if as_json:
        print_json({"resumed": resumed, "what": what, "name": name})
    else:
        typer.echo(f"The {_spoken(what)} {name} goes on." if resumed else f"The {_spoken(what)} {name} was not paused.")


def _spoken(what: str) -> str:
    return what.replace("_", " ")


def _chosen(queue: str, kind: str, fairness_key: str) -> tuple[str, str]:
    """For the sentences; that there is exactly one is checked by the call itself."""
    given = {"queue": queue, "kind": kind, "fairness_key": fairness_key}
    return next(((what, name) for what, name in given.items() if name), ("queue", ""))
