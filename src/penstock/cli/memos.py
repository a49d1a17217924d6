"""`penstock memos`: the memos of conversations, listed or searched. `penstock streams`: conversations and their progress."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from penstock.cli.session import Json, Most, ask, ask_product, console, print_json, print_table, shortened
from penstock.engine import Penstock

if TYPE_CHECKING:
    from penstock.memos import Memo, Stream
    from penstock.product import Product


def memos(
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="Only of this one.")] = None,
    question: Annotated[
        str | None, typer.Option("--search", metavar="QUESTION", help="Those that answer best.")
    ] = None,
    hits: Annotated[int, typer.Option("-k", min=1, max=100, help="At most this many answers.")] = 10,
    every: Annotated[bool, typer.Option("--all", help="Also those that were merged or superseded.")] = False,
    after: Annotated[int, typer.Option(help="Without a question: only memos with a larger number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Without a question: at most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """List memos by number, or find those that answer a question."""
    if question is not None and question.strip():
        found = ask_product(partial(_find, question=question, stream=stream, hits=hits, every=every))
    else:
        found = ask(partial(_list, stream=stream, after=after, limit=limit, every=every))
    if as_json:
        print_json({"memos": [asdict(each) for each in found]})
        return
    if not found:
        typer.echo("There is no such memo.")
    for each in found:
        _print_memo(each)


async def _list(penstock: Penstock, stream: str | None, after: int, limit: int, *, every: bool) -> "list[Memo]":
    from penstock.memos import list_memos

    tenant = penstock.settings.tenant
    number = await _number(penstock, stream)
    return await penstock.database.pool.repeat(
        list_memos, tenant=tenant, stream=number, after=after, most=limit, every=every
    )


async def _find(product: "Product", question: str, stream: str | None, hits: int, *, every: bool) -> "list[Memo]":
    from penstock.memos import MemoQuestion, find_memos

    asked = MemoQuestion(question, product.settings.tenant, await _number(product.app, stream), hits, every)
    return await find_memos(product.app.database, product.models, asked, product.settings.memos)


async def _number(penstock: Penstock, stream: str | None) -> int | None:
    from penstock.memos import find_stream

    if stream is None:
        return None
    found = await penstock.database.pool.repeat(find_stream, name=stream, tenant=penstock.settings.tenant)
    return found.id


def _print_memo(memo: "Memo") -> None:
    console().print(Text(f"{memo.id}. ").append(_one_line(memo.text), style="bold"))
    about = f"   {memo.kind}, {memo.confidence:.2f}, in {memo.stream}"
    if memo.merged_into is not None:
        about += f"; merged into {memo.merged_into}"
    if memo.superseded_by is not None:
        about += f"; superseded by {memo.superseded_by}"
    console().print(Text(about, style="dim"))
    for message in memo.messages:
        origin = f"{message.number} {message.author}".strip()
        console().print(Text(f"   {origin}: {shortened(_one_line(message.text), 100)}", style="dim"))


def _one_line(text: str) -> str:
    """Without control characters, which would command the terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


# -- streams --------------------------------------------------------------------------------------------------------


def streams(
    after: Annotated[str, typer.Option(help="Only names behind this one.")] = "",
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the streams by name."""

    async def look(penstock: Penstock) -> "list[Stream]":
        from penstock.memos import list_streams

        tenant = penstock.settings.tenant
        return await penstock.database.pool.repeat(list_streams, tenant=tenant, after=after, most=limit)

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
