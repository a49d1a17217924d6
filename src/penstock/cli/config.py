"""`penstock config`: the settings in force, and where each comes from."""

import json
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli.asking import console
from penstock.settings import describe, load_settings, settings_page


def config(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/settings.md.")] = False,
) -> None:
    """Print the settings in force with their origin; secrets are masked."""
    if markdown:
        typer.echo(settings_page(), nl=False)
        return
    rows = describe(load_settings())
    if as_json:
        typer.echo(json.dumps({row.key: {"value": row.value, "origin": row.origin} for row in rows}, indent=2))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(row.key, row.value, row.origin, style="dim" if row.origin == "default" else None)
    console().print(table)
