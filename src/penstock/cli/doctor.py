"""`penstock doctor`: what is wrong, and the command that mends it; with --fix, what is safe is done."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.asking import Json, duration, print_json
from penstock.operations import Finding, Fixed, examine, fix
from penstock.settings import LogSettings, load_settings
from penstock.telemetry import configure_logging


def doctor(
    old_after: Annotated[str, typer.Option(help="A ready job older than this is a finding.")] = "5m",
    fixing: Annotated[
        bool, typer.Option("--fix", help="Do what is safe: no job and no document is touched. Then look again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look for everything that is known to go wrong; exit code 1 if there is something."""
    patience = duration("--old-after", old_after)
    configure_logging(LogSettings(level="warning"))
    settings = load_settings().settings

    async def look() -> tuple[list[Finding], list[Fixed]]:
        findings = await examine(settings, old_after=patience)
        fixed = await fix(settings, findings) if fixing else []
        return (await examine(settings, old_after=patience) if fixed else findings), fixed

    findings, fixed = asyncio.run(look())
    wrong = [finding for finding in findings if not finding.note]
    if as_json:
        told = [vars(finding) | {"fixable": finding.fixable} for finding in findings]
        done = {"fixed": [{"name": each.finding.name, "did": each.said} for each in fixed]} if fixing else {}
        print_json({"healthy": not wrong, "findings": told, **done})
    else:
        _print(findings, fixed)
    if wrong:
        raise typer.Exit(1)


def _print(findings: list[Finding], fixed: list[Fixed]) -> None:
    for each in fixed:
        typer.echo(f"Fixed {each.finding.name}: {each.said}")
    if not findings:
        typer.echo("Nothing is wrong.")
    for finding in findings:
        typer.secho(finding.name, bold=True, nl=False)
        typer.echo(f"  {finding.sentence}")
        if finding.command:
            by_itself = "  # or: penstock doctor --fix" if finding.fixable else ""
            typer.echo(f"    {finding.command}{by_itself}")
