"""`penstock key`: make, list and revoke API keys, of any tenant. A key is printed once, when it is made."""

from dataclasses import asdict
from typing import Annotated

import typer

from penstock import access
from penstock.cli.asking import Json, ask, duration, print_json, print_table

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


@app.command("create")
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


@app.command("list")
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


@app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(metavar="KEY", help="Its number or its prefix.")], as_json: Json = False
) -> None:
    """End a key: a second later nobody can use it any more."""
    gone = ask(lambda penstock: access.revoke_key(penstock.database, which))
    if as_json:
        print_json(_facts(gone))
    else:
        typer.echo(f"Revoked key {gone.id} (pk_{gone.prefix}_…) of {gone.name}.")


def _facts(key: access.Listed) -> dict[str, object]:
    facts = asdict(key)
    del facts["key"]
    return facts
