"""The parts that commands share: options, opening the database or the whole product for one question, and printing.

`ask` opens the database, `ask_product` also the blob store, the models and the product's kinds of jobs. `worker_for` lets a
command that waits be the worker, if no other process is. Answers are printed as tables for people, or as JSON.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from difflib import get_close_matches
from signal import SIGINT, default_int_handler, signal
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from asyncpg import Record
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.database import EmbeddedServer
from penstock.engine import Penstock, is_served
from penstock.errors import BadSetting, NotFound
from penstock.settings import LogSettings, load_settings, parse_duration
from penstock.telemetry import configure_logging

if TYPE_CHECKING:
    from penstock.documents import Collection
    from penstock.product import Product

T = TypeVar("T")

DEFAULT = "default"  # the collection that is always there
GAP = 2  # columns between two cells of a table

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most this many.")]
Into = Annotated[str, typer.Option("--collection", "-c", help="Target collection.")]
Create = Annotated[bool, typer.Option("--create", help="Create the collection if it does not exist.")]
CollectionName = Annotated[str, typer.Argument(metavar="COLLECTION", help="Name of the collection.")]
DocumentRef = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id, name, or collection/name.")]


def group(help: str) -> typer.Typer:  # noqa: A002  typer's own word
    """A group of commands: without a command it prints its help."""
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run. Ctrl-C cancels `main`, so that it closes what it has opened; elsewhere it ends the process at once."""
    before = signal(SIGINT, default_int_handler)
    try:
        return asyncio.run(main)
    finally:
        signal(SIGINT, before)


def ask(question: Callable[[Penstock], Awaitable[T]]) -> T:
    """Open the database with few connections, ask, close."""
    configure_logging(LogSettings(level="warning"))  # on stderr, so that it is not in the way of JSON
    report_start()

    async def main() -> T:
        async with Penstock(role="cli", pool__size=2, pool__step=2) as app:
            return await question(app)

    return run(main())


def ask_product(question: Callable[["Product"], Awaitable[T]]) -> T:
    """Open the product with few connections, ask, close."""
    configure_logging(LogSettings(level="error"))  # warnings are for processes that run for long
    report_start()
    from penstock.product import Product  # slow to load, and most commands do not need it

    async def main() -> T:
        async with Product(role="cli", pool__size=2, pool__step=2) as product:
            return await question(product)

    return run(main())


@asynccontextmanager
async def worker_for(product: "Product", kind: str) -> AsyncIterator[None]:
    """Work in this process, unless another worker takes jobs of this kind."""
    if await product.app.database.pool.repeat(is_served, kind):
        yield
        return
    typer.echo("No worker is running: working here until it is done.", err=True)
    working = asyncio.create_task(product.app.work(concurrency=product.slots), name="work here")
    try:
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def target_collection(app: Penstock, name: str, *, create: bool) -> "Collection":
    """The collection to add to. Only `default` is made unasked: documents of a misspelt one would not be found again."""
    from penstock.documents import ensure_collection, find_collection, list_collections

    tenant = app.settings.tenant
    if create or name == DEFAULT:
        return await ensure_collection(app, name, tenant=tenant)
    try:
        return await find_collection(app, name, tenant=tenant)
    except NotFound:
        known = [each.name for each in await list_collections(app, most=10_000, tenant=tenant)]
        raise NotFound(f"Collection {name} does not exist.{did_you_mean(name, known)} `--create` makes it.") from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with a space before it; nothing if no known name is similar."""
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def duration(option: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadSetting(f"{option}: {error}") from None


# -- printing -------------------------------------------------------------------------------------------------------


def report(sentence: str) -> None:
    """Report progress on stderr, where it does not mix with the answer."""
    typer.echo(sentence, err=True)


def report_start() -> None:
    """Report that the embedded server has to be started, which takes seconds; longer if it has to be made."""
    settings = load_settings().settings
    if settings.database_url is None and EmbeddedServer(settings.home, settings.postgres).postmaster.running() is None:
        report(f"Starting PostgreSQL in {settings.home} …")


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)


def decoded(row: Record) -> dict[str, Any]:
    """A row whose JSON columns are values."""
    columns = {"args", "result", "progress", "error", "attempts", "load"}
    return {
        key: json.loads(value) if key in columns and isinstance(value, str) and value[:1] in '{["' else value
        for key, value in row.items()
    }


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Plain text in columns, one line for each row: the widest columns are cut so that it fits. Nothing in a cell is markup."""
    shown = [["" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *shown, strict=True)]
    terminal = console()
    most = _width_of_widest(widths, terminal.width - GAP * (len(widths) - 1))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP // 2))
    for name in columns:
        table.add_column(name, no_wrap=True, max_width=most, overflow="ellipsis")
    for row in shown:
        table.add_row(*map(Text, row))
    terminal.print(table)


def _width_of_widest(widths: Sequence[int], room: int) -> int:
    """The largest width that a column may have so that all fit; narrower columns are left alone."""
    most = max(widths, default=0)
    while most > 1 and sum(min(width, most) for width in widths) > room:
        most -= 1
    return most


def print_facts(facts: Mapping[str, object]) -> None:
    """One fact per line, those that are not known left out."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            table.add_row(Text(name.replace("_", " "), style="bold"), Text(str(value)))
    console().print(table)


def console() -> Console:
    terminal = Console(highlight=False, markup=False)
    if not terminal.is_terminal:  # a pipe has no width: nothing is cut or wrapped for it
        terminal.width = 10_000
    return terminal


def one_line(text: str) -> str:
    """Without line ends and control characters: the text of a document must not command the terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def shortened(text: str | None, most: int = 200) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= most else line[: most - 1] + "…"
