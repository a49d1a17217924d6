"""What the databases say differently, and a connection to one of them.

Keys travel as the other database's own text and are compared by nobody else: neither clocks nor precision of ours matter.
A `Query` is text with `:name` in it, made of quoted names only; the values are bound, each cast to the type of its column.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from penstock.errors import BadSetting

CONNECT = 10.0  # seconds
CALL = 60.0  # seconds for one answer; a view without an index may need them
PORTION = 8 * 2**20  # bytes of rows that are asked for at once

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One by which rows are numbered or ordered."""

    name: str
    kind: str  # number, time, text; or what it is instead, which cannot be compared exactly
    type: str = ""  # as the database quotes it


@dataclass(frozen=True, slots=True)
class Query:
    """A statement, the texts for its `:names`, and the columns that these are compared with."""

    text: str
    values: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)


class Connection(Protocol):
    """An open connection. Each call ends by its deadline; after any error it is dropped."""

    @property
    def is_open(self) -> bool: ...

    async def describe(self, query: str) -> list[Column]:
        """The columns of a query that returns no rows."""

    async def fetch(self, query: Query) -> list[Sequence[Any]]:
        """All rows at once; for keys alone."""

    def stream(self, query: Query) -> AsyncGenerator[Row, None]:
        """Whole rows, no more of them in memory than `PORTION` or one; columns of JSON are parsed."""

    async def run(self, queries: Sequence[Query]) -> None:
        """Write, in one transaction."""

    def drop(self) -> None:
        """Close it at once, without a word to the server."""

    async def close(self) -> None: ...


class Dialect(Protocol):
    """One kind of database, at one address."""

    name: str
    where: str  # host and database, without user and password
    compares_rows: bool  # (a, b) > (c, d), and finds it by an index

    def quote(self, name: str) -> str: ...

    def text_of(self, quoted: str) -> str:
        """The column as text that the database reads back as the same value."""

    def earlier(self, place: str, column: Column, by: int | timedelta) -> str:
        """A value that is smaller by a number or a time."""

    def first(self, count: int) -> str:
        """The last clause of a query, after `order by`."""

    async def connect(self) -> Connection: ...

    def explain(self, error: Exception) -> str:
        """A sentence for what went wrong, with what to do."""


def expand(query: Query, place: Any) -> tuple[str, list[str | None], list[Column | None]]:
    """The text with the database's own marks, and the values in their order; `place(number, column)` writes a mark."""
    texts: list[str | None] = []
    columns: list[Column | None] = []

    def mark(text: str | None, column: Column | None) -> str:
        texts.append(text)
        columns.append(column)
        return str(place(len(texts), column))

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        value, column = query.values[name], query.columns.get(name)
        if isinstance(value, str):
            return mark(value, column)
        return "(" + ", ".join(mark(text, column) for text in value) + ")"

    return re.sub(r":([a-z]\w*)", replace, query.text), texts, columns


def quoted(name: str, opening: str, closing: str) -> str:
    """Each part between quotation marks; the settings allow none of these marks in a name."""
    return ".".join(f"{opening}{part.replace(closing, closing * 2)}{closing}" for part in name.split("."))


def weigh(row: Row) -> int:
    """About the bytes of a row."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row.values())


def choose_dialect(url: str) -> Dialect:
    """By the beginning of the address."""
    scheme = url.partition("://")[0]
    if scheme in {"postgresql", "postgres"}:
        from penstock.sources.table.postgres import Postgres

        return Postgres(url)
    if scheme in {"mysql", "mariadb"}:
        from penstock.sources.table.mysql import MySql

        return MySql(url)
    if scheme == "mssql":
        from penstock.sources.table.mssql import MsSql

        return MsSql(url)
    raise BadSetting("The url of a table begins with postgresql://, mysql:// or mssql://.")
