"""`penstock jobs`: list, show, cancel. `penstock dead`: dead letters, to redrive or discard. `penstock pause` and `resume`."""

import json
from typing import Annotated, Any

import typer

from penstock.cli.session import (
    Json,
    Most,
    ask,
    decoded,
    duration,
    group,
    print_facts,
    print_json,
    print_table,
    report,
    shortened,
)
from penstock.engine import Penstock, find_job
from penstock.engine.inspect import JobFilter, Selection, dead_by_cause, dead_jobs
from penstock.engine.inspect import discard as discard_jobs
from penstock.engine.inspect import list_jobs as list_live
from penstock.engine.inspect import redrive as redrive_jobs
from penstock.errors import BadJob, JobNotFound
from penstock.text import counted

app = group("List, show and cancel jobs.")
dead_app = group("List, show, redrive and discard dead jobs.")

STATES = ("ready", "later", "running", "waiting", "dead")
JobId = Annotated[int, typer.Argument(metavar="ID", help="Id of the job.")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID...]", help="Ids of jobs.")]
Fingerprint = Annotated[str | None, typer.Option(help="Select jobs that died of this cause.")]
OptionalKind = Annotated[str | None, typer.Option("--kind", help="Select jobs of this kind.")]
OptionalQueue = Annotated[str | None, typer.Option("--queue", help="Select jobs of this queue.")]
OptionalFairnessKey = Annotated[str | None, typer.Option("--fairness-key", help="Select jobs of this fairness key.")]
Queue = Annotated[str, typer.Option(help="Name of the queue.")]
KindName = Annotated[str, typer.Option("--kind", help="Name of the kind.")]
FairnessKey = Annotated[str, typer.Option(help="The fairness key.")]


@app.command("list")
def list_jobs(
    state: Annotated[
        str | None, typer.Option(help=f"List jobs in this state: {', '.join(STATES)}. Default: all but dead.")
    ] = None,
    kind: OptionalKind = None,
    queue: OptionalQueue = None,
    fairness_key: OptionalFairnessKey = None,
    after: Annotated[int, typer.Option(help="List jobs with a larger id.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the live jobs by id."""
    if state is not None and state not in STATES:
        raise BadJob(
            f"State {state} does not exist: use {', '.join(STATES)}. `penstock jobs show ID` shows a job that has ended."
        )

    async def read(penstock: Penstock) -> tuple[list[dict[str, Any]], bool]:
        jobs: list[dict[str, Any]] = []
        place: int | None = after
        while place is not None and len(jobs) < limit:
            page = await penstock.database.pool.repeat(
                list_live, wanted=JobFilter(state, kind, queue, fairness_key), after=place, most=limit - len(jobs)
            )
            jobs += [decoded(row) | {"error": row["error"]} for row in page.jobs]
            place = page.next
        return jobs, place is not None

    jobs, more = ask(read)
    if as_json:
        print_json({"jobs": jobs, "more": more})
        return
    if not jobs:
        typer.echo("No job matches.")
        return
    columns = ("id", "state", "queue", "kind", "fairness_key", "attempt", "failures", "run_at", "error")
    print_table(columns, ([_cell(job[column]) for column in columns] for job in jobs))
    if more:
        typer.echo(f"More follow: add --after {jobs[-1]['id']}.", err=True)


def _cell(value: object) -> object:
    if hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return shortened(value) if isinstance(value, str) else value


@app.command()
def show(job_id: JobId, as_json: Json = False) -> None:
    """Show a job, live or from the history, with its attempts."""
    job, sentence = ask(lambda penstock: _find(penstock, job_id))
    _print_job(job, sentence, as_json=as_json)


@app.command()
def cancel(
    job_ids: Annotated[list[int], typer.Argument(metavar="ID...", help="Ids of jobs.")],
    reason: Annotated[str, typer.Option(help="Recorded in the history.")] = "cancelled by hand",
    as_json: Json = False,
) -> None:
    """Cancel jobs. A running one stops with the next heartbeat of its worker."""
    cancelled = ask(lambda penstock: penstock.cancel(*job_ids, reason=reason))
    missed = sorted(set(job_ids) - set(cancelled))
    if as_json:
        print_json({"cancelled": cancelled, "not_alive": missed})
    elif cancelled:
        typer.echo(f"Cancelled {counted(len(cancelled), 'job')}: {', '.join(map(str, cancelled))}.")
    if missed:
        raise JobNotFound(f"Not cancelled, because not live: {', '.join(map(str, missed))}.")


async def _find(penstock: Penstock, job_id: int) -> tuple[dict[str, Any], str]:
    """The job and its explanation."""
    found = await penstock.database.pool.repeat(lambda session: find_job(session, job_id))
    if found is None:
        raise JobNotFound(f"Job {job_id} does not exist, neither live nor in the history.")
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
    """List the causes of failure. With a filter, list the dead jobs."""
    chosen = fingerprint is not None or kind is not None

    async def read(penstock: Penstock) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        async with penstock.database.pool.session() as session:
            causes = await dead_by_cause(session, limit)
            dead = await dead_jobs(session, fingerprint=fingerprint, kind=kind, most=limit) if chosen else []
        return [dict(cause) for cause in causes], [decoded(job) for job in dead]

    causes, dead = ask(read)
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
def show_dead(job_id: JobId, as_json: Json = False) -> None:
    """Show a dead job: its arguments, its error and its traceback."""
    job, sentence = ask(lambda penstock: _find(penstock, job_id))
    if job["state"] != "dead":
        raise JobNotFound(f"Job {job_id} is not dead: {sentence}")
    _print_job(job, sentence, as_json=as_json)


@dead_app.command()
def redrive(
    job_ids: Ids = None,
    fingerprint: Fingerprint = None,
    kind: OptionalKind = None,
    force: Annotated[
        bool, typer.Option("--force", help="Redrive even if nothing has changed since the failure.")
    ] = False,
    patience: Annotated[str, typer.Option(help="Time to wait for a stage to end.")] = "10m",
    as_json: Json = False,
) -> None:
    """Requeue dead jobs: 1, then 10, then all. Stops when the same failure returns."""
    selection = Selection(tuple(job_ids or ()), fingerprint, kind)
    wait = duration("--patience", patience)

    result = ask(lambda penstock: redrive_jobs(penstock.database, selection, force=force, patience=wait, tell=report))
    if as_json:
        print_json(vars(result))
    else:
        typer.echo(result.sentence)
    if result.stopped:
        raise typer.Exit(1)


@dead_app.command()
def discard(
    reason: Annotated[str, typer.Option(help="Reason, recorded in the history.")],
    job_ids: Ids = None,
    fingerprint: Fingerprint = None,
    kind: OptionalKind = None,
    as_json: Json = False,
) -> None:
    """Discard dead jobs, with a reason."""
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
    reason: Annotated[str, typer.Option(help="Reason, shown by `why` and `doctor`.")] = "paused by hand",
    as_json: Json = False,
) -> None:
    """Pause a queue, a kind or a fairness key. Running jobs go on."""
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
        typer.echo(
            f"The {_spoken(what)} {name} is resumed." if resumed else f"The {_spoken(what)} {name} was not paused."
        )


def _spoken(what: str) -> str:
    return what.replace("_", " ")


def _chosen(queue: str, kind: str, fairness_key: str) -> tuple[str, str]:
    """For the sentences. The call itself checks that exactly one is given."""
    given = {"queue": queue, "kind": kind, "fairness_key": fairness_key}
    return next(((what, name) for what, name in given.items() if name), ("queue", ""))
