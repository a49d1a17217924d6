"""`penstock metrics`: what the processes measure, and the files that are made of it for Prometheus and Grafana."""

from dataclasses import asdict
from typing import Annotated

import typer

from penstock.cli.asking import Json, print_json, print_table

app = typer.Typer(help="List the metrics; print the alert rules and the dashboard.", rich_markup_mode=None)

Markdown = Annotated[bool, typer.Option("--markdown", help="As the tables of docs/metrics.md.")]


@app.command("list")
def list_all(as_json: Json = False, markdown: Markdown = False) -> None:
    """List every metric that the API and the workers have."""
    from penstock.web.measured import list_metrics, metrics_table

    if markdown:
        typer.echo(metrics_table(fleet=False))
        typer.echo(metrics_table(fleet=True), nl=False)
    elif as_json:
        print_json([asdict(each) for each in list_metrics()])
    else:
        found = list_metrics()
        cells = ((each.name, each.type, "fleet" if each.fleet else "process", ", ".join(each.labels)) for each in found)
        print_table(("metric", "type", "of", "labels"), cells)


@app.command("alerts")
def alerts(markdown: Markdown = False) -> None:
    """Print the rules for Prometheus: deploy/prometheus/penstock.rules.yml."""
    from penstock.operations.alerts import rules_file
    from penstock.web.measured import alerts_table

    typer.echo(alerts_table() if markdown else rules_file(), nl=False)


@app.command("dashboard")
def dashboard() -> None:
    """Print the dashboard for Grafana: deploy/grafana/penstock.json."""
    from penstock.operations.panels import dashboard_file

    typer.echo(dashboard_file(), nl=False)
