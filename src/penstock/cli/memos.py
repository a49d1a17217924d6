"""`penstock memos`: list and search the memos of conversations. `penstock streams`: list conversations and their progress."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from penstock.cli.session import (
    Json,
    Most,
    ask,
    ask_product,
    console,
    group,
    one_line,
    print_json,
    print_table,
    shortened,
)
from penstock.engine import Penstock

if TYPE_CHECKING:
    from penstock.memos import Memo, MemoMessage, Stream
    from penstock.product import Product


app = group("List and search the memos of conversations.")
streams_app = group("List conversations and their progress.")

StreamName = Annotated[str | None, typer.Option("--stream", help="Memos of this stream.")]
Every = Annotated[bool, typer.Option("--all", help="Include memos that were merged or superseded.")]


@app.command("list")
def list_all(
    stream: StreamName = None,
    every: Every = False,
    after: Annotated[int, typer.Option(help="List memos with a larger id.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the memos by id."""
    _print(ask(partial(_list, stream=stream, after=after, limit=limit, every=every)), as_json=as_json)


@app.command()
def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question, or words.")],
    hits: Annotated[int, typer.Option("-k", min=1, max=100, help="Maximum number of memos.")] = 10,
    stream: StreamName = None,
    every: Every = False,
    as_json: Json = False,
) -> None:
    """Find the memos that answer a question."""
    _print(ask_product(partial(_find, question=question, stream=stream, hits=hits, every=every)), as_json=as_json)


def _print(found: "list[Memo]", *, as_json: bool) -> None:
    if as_json:
        print_json({"memos": [asdict(each) for each in found]})
        return
    if not found:
        typer.echo("No memo matches.")
    for each in found:
        _print_memo(each)


async def _list(penstock: Penstock, stream: str | None, after: int, limit: int, *, every: bool) -> "list[Memo]":
    from penstock.memos import list_memos

    tenant = penstock.settings.tenant
    stream_id = await _stream_id(penstock, stream)
    return await penstock.database.pool.repeat(
        partial(list_memos, tenant=tenant, stream=stream_id, after=after, most=limit, every=every)
    )


async def _find(product: "Product", question: str, stream: str | None, hits: int, *, every: bool) -> "list[Memo]":
    from penstock.memos import MemoQuestion, find_memos

    asked = MemoQuestion(question, product.settings.tenant, await _stream_id(product.app, stream), hits, every)
    return await find_memos(product.app.database, product.models, asked, product.settings.memos)


async def _stream_id(penstock: Penstock, stream: str | None) -> int | None:
    from penstock.memos import find_stream

    if stream is None:
        return None
    found = await penstock.database.pool.repeat(partial(find_stream, name=stream, tenant=penstock.settings.tenant))
    return found.id


def _print_memo(memo: "Memo") -> None:
    """The text, then its origin."""
    console().print(Text(f"{memo.id}. ").append(one_line(memo.text), style="bold"))
    about = f"   {memo.kind}, {memo.confidence:.2f}, in {memo.stream}"
    if memo.merged_into is not None:
        about += f"; merged into {memo.merged_into}"
    if memo.superseded_by is not None:
        about += f"; superseded by {memo.superseded_by}"
    console().print(Text(about, style="dim"))
    for message in memo.messages:
        console().print(Text(f"   {_origin(message)}: {shortened(one_line(message.text), 100)}", style="dim"))


def _origin(message: "MemoMessage") -> str:
    return f"{message.number} {message.author}".strip()


# -- streams --------------------------------------------------------------------------------------------------------


@streams_app.command("list")
def list_streams_by_name(
    after: Annotated[str, typer.Option(help="List names after this one.")] = "",
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the streams by name."""

    async def read(penstock: Penstock) -> "list[Stream]":
        from penstock.memos import list_streams

        tenant = penstock.settings.tenant
        return await penstock.database.pool.repeat(partial(list_streams, tenant=tenant, after=after, most=limit))

    found = ask(read)
    if as_json:
        print_json({"streams": [{**asdict(each), "waiting": each.waiting} for each in found]})
        return
    if not found:
        typer.echo("No stream exists: POST /api/streams/NAME/messages makes one.")
        return
    print_table(("stream", "messages", "waiting", "memos", "state", "job", "because"), map(_cells, found))


def _cells(stream: "Stream") -> tuple[object, ...]:
    return (
        stream.name,
        stream.last,
        stream.waiting,
        stream.memos,
        stream.state,
        stream.job,
        shortened(stream.reason),
    )
