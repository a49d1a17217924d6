"""What the short commands share: open the database, ask one thing, and print it as a table or as JSON."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

import typer
from asyncpg import Record
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.engine import Penstock
from penstock.errors import BadSetting
from penstock.settings import LogSettings
from penstock.settings.values import parse_duration
from penstock.telemetry import configure_logging

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


def ask(question: Callable[[Penstock], Awaitable[T]]) -> T:
    """Open the database with few connections, ask, close."""
    configure_logging(LogSettings(level="warning"))  # on stderr, so that it is not in the way of JSON

    async def main() -> T:
        async with Penstock(role="cli", pool__size=2, pool__step=2) as app:
            return await question(app)

    return asyncio.run(main())


def duration(option: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadSetting(f"{option}: {error}") from None


def print_json(facts: Any) -> None:
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False, default=_plain))


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
