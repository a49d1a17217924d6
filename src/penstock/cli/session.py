"""The parts that commands share: options, opening the database or the whole product for one question, and printing.

`ask` opens the database, `ask_product` also the blob store, the models and the product's kinds of jobs. `worker_for` lets a
command that waits be the worker, if no other process is. Answers are printed as tables for people, or as JSON.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from asyncpg import Record
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.engine import Penstock, is_served
from penstock.errors import BadSetting
from penstock.settings import LogSettings, parse_duration
from penstock.telemetry import configure_logging

if TYPE_CHECKING:
    from penstock.product import Product

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most this many.")]
Into = Annotated[str, typer.Option("--collection", "-c", help="Where to; made if it is not there.")]
CollectionName = Annotated[str, typer.Argument(metavar="COLLECTION")]
DocumentRef = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Its number, its name, or collection/name.")]


def ask(question: Callable[[Penstock], Awaitable[T]]) -> T:
    """Open the database with few connections, ask, close."""
    configure_logging(LogSettings(level="warning"))  # on stderr, so that it is not in the way of JSON

    async def main() -> T:
        async with Penstock(role="cli", pool__size=2, pool__step=2) as app:
            return await question(app)

    return asyncio.run(main())


def ask_product(question: Callable[["Product"], Awaitable[T]]) -> T:
    """Open the product with few connections, ask, close."""
    from penstock.product import Product  # slow to load, and most commands do not need it

    configure_logging(LogSettings(level="error"))  # warnings are for processes that run for long

    async def main() -> T:
        async with Product(role="cli", pool__size=2, pool__step=2) as product:
            return await question(product)

    return asyncio.run(main())


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


def duration(option: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadSetting(f"{option}: {error}") from None


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
    """Plain text in columns; nothing in a cell is markup."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console().print(table)


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


def shortened(text: str | None, most: int = 80) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= most else line[: most - 1] + "…"
