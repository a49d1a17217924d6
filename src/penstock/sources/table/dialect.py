"""The dialect of another database: its address, its SQL, and a connection to it.

Keys are passed as the other database's own text and compared only there: neither clocks nor precision of ours matter. A
`TableQuery` is text with `:name` in it, made of quoted names only; the values are bound, each cast to the type of its column.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from penstock.errors import BadSetting

CONNECT = 10.0  # seconds
CALL = 60.0  # seconds for one answer; a view without an index may need them
PORTION = 8 * 2**20  # bytes of rows that are fetched at once

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The parts of the address of a database whose driver does not parse URLs."""

    user: str
    password: str
    host: str
    port: int
    database: str
    options: dict[str, str]

    @property
    def where(self) -> str:
        """Without user and password."""
        return f"{self.host}:{self.port}/{self.database}"


def parse_address(url: str, port: int) -> DatabaseAddress:
    """Not by urlsplit: its errors quote the password."""
    found = re.fullmatch(
        r"\w+://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?(?P<host>\[[^]]*\]|[^:/?#]*)(?::(?P<port>\d+))?"
        r"/(?P<database>[^/?#]+)(?:\?(?P<options>[^#]*))?",
        url,
    )
    if found is None:
        raise BadSetting(
            "The url of the table cannot be split: write mysql://user:password@host:3306/database. "
            "In a password, write %2F for /, %3A for :, %40 for @, %3F for ? and %23 for #."
        )
    return DatabaseAddress(
        user=unquote(found["user"] or ""),
        password=unquote(found["password"] or ""),
        host=(found["host"] or "localhost").strip("[]"),
        port=int(found["port"] or port),
        database=unquote(found["database"]),
        options=dict(parse_qsl(found["options"] or "")),
    )


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column by which rows are identified or ordered."""

    name: str
    kind: str  # number, time, text; or what it is instead, which cannot be compared exactly
    type: str = ""  # as the database quotes it


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A statement, the texts for its `:names`, and the columns that these are compared with."""

    text: str
    values: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    columns: Mapping[str, KeyColumn] = field(default_factory=dict)


class Connection(Protocol):
    """An open connection. Each call ends by its deadline; after any error it is dropped."""

    @property
    def is_open(self) -> bool: ...

    async def describe(self, query: str) -> list[KeyColumn]:
        """The columns of a query that returns no rows."""

    async def fetch(self, query: TableQuery) -> list[Sequence[Any]]:
        """All rows at once; for keys alone."""

    def stream(self, query: TableQuery) -> AsyncGenerator[Row, None]:
        """Whole rows, no more of them in memory than `PORTION` or one; columns of JSON are parsed."""

    async def run(self, queries: Sequence[TableQuery]) -> None:
        """Write, in one transaction."""

    def drop(self) -> None:
        """Close it at once, without notice to the server."""

    async def close(self) -> None: ...


class Dialect(Protocol):
    """One kind of database, at one address."""

    name: str
    where: str  # host and database, without user and password
    compares_rows: bool  # (a, b) > (c, d), and finds it by an index

    def quote(self, name: str) -> str: ...

    def text_of(self, quoted: str) -> str:
        """The column as text that the database reads back as the same value."""

    def earlier(self, place: str, column: KeyColumn, by: int | timedelta) -> str:
        """A value that is smaller by a number or a time."""

    def first(self, count: int) -> str:
        """The last clause of a query, after `order by`."""

    async def connect(self) -> Connection: ...

    def explain(self, error: Exception) -> str:
        """A sentence for what went wrong, with what to do."""


def expand(query: TableQuery, place: Any) -> tuple[str, list[str | None], list[KeyColumn | None]]:
    """The text with the database's own marks, and the values in their order; `place(number, column)` writes a mark."""
    texts: list[str | None] = []
    columns: list[KeyColumn | None] = []

    def mark(text: str | None, column: KeyColumn | None) -> str:
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
