"""Commands for operators: `penstock status`, `doctor`, `invariants`, `health`, `metrics` and `why`.

`status` and `doctor` report problems first, `invariants` checks what must always be true, `health` is for probes that run a
command, `metrics` lists metrics and prints the packaged files for Prometheus and Grafana, and `why` explains one document,
job, message or source.
"""

import http.client
import json
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.session import Json, ask, duration, group, print_json, print_table, run
from penstock.engine import Penstock
from penstock.engine.inspect import Explanation
from penstock.errors import JobNotFound, NotFound
from penstock.settings import LogSettings, load_settings
from penstock.telemetry import MetricDescription, configure_logging, described
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.documents import UnreadDocument
    from penstock.operations import Finding, FixAttempt

doctor_app = typer.Typer(rich_markup_mode=None)
metrics_app = group("List metrics; print alert rules and the Grafana dashboard.")

NO_PROBLEMS = "No problems found."
PATIENCE = 3.0  # seconds for a process to answer


def status(
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", help="Count documents of this collection.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show documents, jobs, workers and urgent problems."""
    from penstock.operations import read_status

    async def look(penstock: Penstock) -> dict[str, Any]:
        tenant = penstock.settings.tenant
        return await read_status(penstock, collection=collection, tenant=tenant, thorough=True)

    facts = ask(look)
    findings: list[Finding] = facts["findings"]
    if as_json:
        unread = [asdict(document) for document in facts["unread"]]
        print_json(facts | {"findings": [asdict(finding) for finding in findings], "unread": unread})
        return
    print_table(("documents", *facts["documents"]), [("", *map(_number, facts["documents"].values()))])
    typer.echo()
    jobs = facts["jobs"]
    rows = [(what, *(_number(jobs[state][what]) for state in jobs)) for what in ("count", "leased", "attempted")]
    print_table(("jobs", *jobs), rows)
    if facts["workers"]:
        typer.echo()
        print_table(("worker", "status", "running", "documents"), map(_worker, facts["workers"]))
    typer.echo()
    _print_unread(facts["unread"], facts["unread_count"])
    _print_urgent(findings)


def _print_urgent(findings: "list[Finding]") -> None:
    problems = [finding for finding in findings if finding.is_problem]
    urgent = [finding for finding in problems if finding.severity == "urgent"]
    for finding in urgent:
        typer.secho("! ", fg="red", bold=True, nl=False)
        typer.echo(finding.sentence)
        if finding.command:
            typer.echo(f"    {finding.command}")
    if len(problems) > len(urgent):
        typer.echo(f"{counted(len(problems) - len(urgent), 'warning')}: see `penstock doctor`.")
    if not problems:
        typer.secho(NO_PROBLEMS, fg="green")


def _print_unread(unread: "list[UnreadDocument]", count: int) -> None:
    """They are not a problem of operation: whoever has uploaded one replaces or dismisses it."""
    if not unread:
        return
    typer.echo(f"{counted(count, 'document')} could not be read. Replace {'it' if count == 1 else 'them'}, or dismiss:")
    for document in unread:
        typer.echo(f"  {document.collection}/{document.name}: {document.reason.rstrip('.')} ({document.cause}).")
    typer.echo(f"    penstock documents dismiss {unread[0].id}")
    if count > len(unread):
        typer.echo(f"  {count - len(unread):,} more: `penstock documents list --status failed`.")
    typer.echo()


def _number(count: int) -> str:
    return f"{count:,}"


def _worker(worker: dict[str, Any]) -> tuple[object, ...]:
    busy = f"{worker['running']}/{worker['slots']}"
    return worker["name"], worker["status"], busy, "yes" if worker["serves_documents"] else "no"


@doctor_app.callback(invoke_without_command=True)
def doctor(
    context: typer.Context,
    old_after: Annotated[str, typer.Option(help="Age of a ready job that is a finding.")] = "5m",
    fixing: Annotated[
        bool, typer.Option("--fix", help="Apply fixes that change no job and no document, then check again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check for all known problems. Exit code 1 if there is one that is not acknowledged."""
    if context.invoked_subcommand is not None:
        return
    from penstock.operations import examine, examine_and_fix, read_unread_everywhere

    patience = duration("--old-after", old_after)
    configure_logging(LogSettings(level="warning"))
    settings = load_settings().settings

    async def check() -> "tuple[list[Finding], list[FixAttempt], tuple[list[UnreadDocument], int]]":
        if fixing:
            findings, attempts = await examine_and_fix(settings, old_after=patience)
        else:
            findings, attempts = await examine(settings, old_after=patience), []
        return findings, attempts, await read_unread_everywhere(settings)

    findings, attempts, (unread, unread_count) = run(check())
    healthy = not any(finding.is_problem for finding in findings)
    if as_json:
        done = [{"name": each.finding.name, "fixed": each.fixed, "did": each.said} for each in attempts]
        print_json(
            {
                "healthy": healthy,
                "findings": [asdict(finding) for finding in findings],
                "unread": [asdict(document) for document in unread],
                "unread_count": unread_count,
                **({"fixes": done} if fixing else {}),
            }
        )
    else:
        for each in attempts:
            typer.echo(each.sentence)
        _print_unread(unread, unread_count)
        _print_findings(findings)
        if healthy:
            typer.echo(NO_PROBLEMS)
    if not healthy:
        raise typer.Exit(1)


def _print_findings(findings: "list[Finding]") -> None:
    for finding in findings:
        color = {"urgent": "red", "warning": "yellow"}.get(finding.severity) if finding.is_problem else None
        typer.secho(f"{finding.severity}: {finding.name}", bold=True, fg=color, nl=False)
        if finding.acknowledged_until is not None:
            typer.echo(f" (acknowledged until {finding.acknowledged_until:%Y-%m-%d %H:%M} UTC)", nl=False)
        typer.echo(f"  {finding.sentence}")
        if finding.command:
            by_itself = "  # or: penstock doctor --fix" if finding.fixable else ""
            typer.echo(f"    {finding.command}{by_itself}")


@doctor_app.command("acknowledge")
def acknowledge_finding(
    name: Annotated[str, typer.Argument(metavar="FINDING", help="Name of the finding, such as dead-jobs.")],
    lasting: Annotated[str, typer.Option("--for", help="How long it is acknowledged, unless it changes.")] = "24h",
    as_json: Json = False,
) -> None:
    """Acknowledge a finding until it changes, or until --for is over."""
    from penstock.operations import acknowledge, examine

    time = duration("--for", lasting)

    async def note(penstock: Penstock) -> "list[Finding]":
        findings = await examine(penstock.settings)
        async with penstock.transaction() as tx:
            return await acknowledge(tx, findings, name, lasting=time, by="cli")

    acknowledged = ask(note)
    if as_json:
        print_json({"acknowledged": [asdict(finding) for finding in acknowledged]})
    else:
        until = acknowledged[0].acknowledged_until
        typer.echo(f"{counted(len(acknowledged), 'finding')} {name} acknowledged until {until:%Y-%m-%d %H:%M} UTC.")


def why(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT|JOB|PACKET|CRAWL|MESSAGE|SOURCE",
            help="Id; name of a document or source; collection/name; source/message; or URL of a crawl.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Explain the state of a document, job, crawl, message or source."""
    explanation = ask(lambda penstock: _explain(penstock, reference))
    if as_json:
        print_json(explanation.answer())
    if explanation.state == "not found":
        raise JobNotFound(explanation.sentence)
    if not as_json:
        typer.echo(explanation.sentence)
        for line in explanation.evidence_lines:
            typer.echo(f"  {line}")


async def _explain(penstock: Penstock, reference: str) -> Explanation:
    """Crawls have ids of the same sequence as everything else, and are also known by their URLs."""
    from penstock.cli.crawls import find_crawl
    from penstock.documents import explain_anything
    from penstock.knowledge.crawl import explain_crawl

    tenant = penstock.settings.tenant
    if reference.isdecimal() or "://" in reference:
        with suppress(NotFound):
            return await explain_crawl(penstock, (await find_crawl(penstock, reference)).id, tenant=tenant)
    return await explain_anything(penstock, reference, tenant=tenant)


def invariants(as_json: Json = False) -> None:
    """Check all invariants completely. Exit code 1 if one is violated. Workers check a part every ten minutes."""
    from penstock.operations import verify

    verdicts = ask(lambda penstock: verify(penstock.database))
    broken = [verdict for verdict in verdicts if verdict.violations]
    if as_json:
        print_json({"hold": not broken, "invariants": [verdict.as_json() for verdict in verdicts]})
    else:
        rows = (
            (each.invariant.number, each.invariant.rule, each.subjects or "", each.violations, f"{each.seconds:.2f} s")
            for each in verdicts
        )
        print_table(("invariant", "rule", "checked", "violations", "time"), rows)
        for verdict in broken:
            typer.echo(f"\n{verdict.invariant.number}  {verdict.invariant.rule}")
            for violation in verdict.shown:
                typer.echo(f"  {violation}")
            if verdict.violations > len(verdict.shown):
                typer.echo(f"  and {verdict.violations - len(verdict.shown):,} more")
        if not broken:
            typer.echo(f"All {counted(len(verdicts), 'invariant')} hold.")
    if broken:
        raise typer.Exit(1)


def health(
    port: Annotated[
        list[int] | None, typer.Option(help="Port to probe; repeatable: one that answers is enough.")
    ] = None,
    ready: Annotated[bool, typer.Option("--ready", help="Check readiness instead of liveness.")] = False,
) -> None:
    """Check that the API or a worker of this machine is alive. Exit code 1 if not."""
    answers = []
    for number in port or [load_settings().settings.api.port]:
        alive, answer = _probe(number, "ready" if ready else "live")
        answers.append(f"port {number}: {answer}")
        if alive:
            typer.echo(answers[-1])
            return
    typer.echo("\n".join(answers), err=True)
    raise typer.Exit(1)


def _probe(port: int, what: str) -> tuple[bool, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", f"/health/{what}")
        answer = connection.getresponse()
        found = json.load(answer)
        return answer.status == HTTPStatus.OK, "; ".join(found.get("problems", [])) or found["status"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        return False, f"no answer ({error})"
    finally:
        connection.close()


# -- metrics --------------------------------------------------------------------------------------------------------


def list_metrics() -> list[MetricDescription]:
    """Every metric, by name. The imports declare them; from these modules everything that has a metric is imported."""
    import penstock.sources
    import penstock.web  # noqa: F401

    return sorted(described.values(), key=lambda metric: metric.name)


@metrics_app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the metrics of the API and the workers."""
    found = list_metrics()
    if as_json:
        print_json([_as_json(metric) for metric in found])
    else:
        cells = ((each.name, each.type, "fleet" if each.fleet else "process", ", ".join(each.labels)) for each in found)
        print_table(("metric", "type", "of", "labels"), cells)


def _as_json(metric: MetricDescription) -> dict[str, Any]:
    return {
        "name": metric.name,
        "type": metric.type,
        "words": metric.help,
        "labels": metric.labels,
        "fleet": metric.fleet,
    }


@metrics_app.command("alerts")
def alerts() -> None:
    """Print the alert rules for Prometheus."""
    _print_file("penstock.rules.yml")


@metrics_app.command("dashboard")
def dashboard() -> None:
    """Print the dashboard for Grafana."""
    _print_file("penstock-dashboard.json")


def _print_file(name: str) -> None:
    typer.echo((files("penstock.operations") / "files" / name).read_text(encoding="utf-8"), nl=False)
