"""`penstock streams`: conversations, how far memos have been made of them, and what keeps them from it."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.asking import Json, ask, print_json, print_table, shortened
from penstock.engine import Penstock

if TYPE_CHECKING:
    from penstock.memos import Stream


def streams(
    after: Annotated[str, typer.Option(help="Only names behind this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """List the streams by name."""

    async def look(penstock: Penstock) -> "list[Stream]":
        from penstock.memos import list_streams

        tenant = penstock.settings.tenant
        return await penstock.database.pool.repeat(partial(list_streams, tenant=tenant, after=after, most=limit))

    found = ask(look)
    if as_json:
        print_json({"streams": [{**asdict(each), "waiting": each.waiting} for each in found]})
        return
    if not found:
        typer.echo("There is no stream: POST /api/streams/NAME/messages makes one.")
        return
    print_table(("stream", "messages", "waiting", "memos", "state", "job", "because"), map(_cells, found))


def _cells(stream: "Stream") -> tuple[object, ...]:
    return (
        shortened(stream.name, 40),
        stream.last,
        stream.waiting,
        stream.memos,
        stream.state,
        stream.job,
        shortened(stream.reason, 200),
    )
