"""`penstock doctor`: what is wrong, and the command that mends it."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.asking import Json, duration, print_json
from penstock.operations import examine
from penstock.settings import LogSettings, load_settings
from penstock.telemetry import configure_logging


def doctor(
    old_after: Annotated[str, typer.Option(help="A ready job older than this is a finding.")] = "5m",
    as_json: Json = False,
) -> None:
    """Look for everything that is known to go wrong; exit code 1 if there is something."""
    patience = duration("--old-after", old_after)
    configure_logging(LogSettings(level="warning"))
    findings = asyncio.run(examine(load_settings().settings, old_after=patience))
    wrong = [finding for finding in findings if not finding.note]
    if as_json:
        print_json({"healthy": not wrong, "findings": [vars(finding) for finding in findings]})
    elif not findings:
        typer.echo("Nothing is wrong.")
    else:
        for finding in findings:
            typer.secho(finding.name, bold=True, nl=False)
            typer.echo(f"  {finding.sentence}" + (f"\n    {finding.command}" if finding.command else ""))
    if wrong:
        raise typer.Exit(1)
