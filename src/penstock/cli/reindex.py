"""`penstock reindex COLLECTION --into INDEX`: builds another index for its vectors beside the present one, and switches."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.asking import Json, print_json
from penstock.cli.collections import tell_index
from penstock.documents import Collection, change_collection

if TYPE_CHECKING:
    from penstock.pipelines import Product


def reindex(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION")],
    into: Annotated[Literal["postgres", "qdrant"], typer.Option(help="Where its vectors shall be searched.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is searched there.")] = True,
    as_json: Json = False,
) -> None:
    """Let the vectors of a collection be searched in another index; until that is complete, the present one answers."""
    from penstock.cli.opening import ask_product
    from penstock.cli.reembedding import follow

    async def do(product: "Product") -> Collection:
        changed = await change_collection(product.app, collection, tenant=product.settings.tenant, index=into)
        return await follow(product, changed, as_json=as_json) if wait else changed

    found = ask_product(do)
    if as_json:
        print_json(found.answer())
    elif found.next_index is None:
        typer.echo(f"The collection {found.name} is searched in {found.index}.")
    else:
        typer.echo(f"The collection {found.name}: {tell_index(found)}.")
    if found.trouble:
        typer.echo(found.trouble, err=True)
    if wait and found.index != into:
        raise typer.Exit(1)
