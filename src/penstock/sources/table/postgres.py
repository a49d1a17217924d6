"""PostgreSQL as the other database, by asyncpg. A pooler between is fine: nothing lasts longer than a transaction."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import asyncpg

from penstock.sources.table.dialect import CALL, CONNECT, PORTION, KeyColumn, Row, TableQuery, expand, quoted, weigh
from penstock.sources.table.queries import parse_json

NUMBERS = {"int2", "int4", "int8", "numeric"}
TIMES = {"timestamptz", "timestamp", "date"}
TEXTS = {"text", "varchar", "bpchar", "uuid", "citext", "name"}
FIRST_ROWS, MOST_ROWS = 20, 500  # in one answer; how large rows are is known after the first


class Postgres:
    name = "PostgreSQL"
    compares_rows = True

    def __init__(self, url: str) -> None:
        self._url = url
        address, _, options = url.partition("://")[2].partition("?")
        host, slash, database = address.rpartition("@")[2].partition("/")
        self.where = (host or dict(parse_qsl(options)).get("host", "localhost")) + slash + database

    def quote(self, name: str) -> str:
        return quoted(name, '"', '"')

    def text_of(self, quoted: str) -> str:
        return f"cast({quoted} as text)"

    def earlier(self, place: str, column: KeyColumn, by: int | timedelta) -> str:
        if isinstance(by, timedelta):
            return f"{place} - interval '{by.total_seconds():f} seconds'"
        # Of a type that an index on the column is compared with; int8, so that little is left below a small number, too.
        return f"cast({place} as int8) - {by}" if '"int' in column.type else f"{place} - {by}"

    def first(self, count: int) -> str:
        return f"limit {count}"

    async def connect(self) -> "PostgresConnection":
        driver = await asyncpg.connect(
            self._url,
            timeout=CONNECT,
            command_timeout=CALL,
            statement_cache_size=0,  # a pooler gives each transaction another server
            server_settings={"application_name": "penstock-source", "timezone": "UTC", "datestyle": "ISO, YMD"},
        )
        for type_name in ("json", "jsonb"):
            await driver.set_type_codec(type_name, schema="pg_catalog", encoder=str, decoder=parse_json)
        return PostgresConnection(driver)

    def explain(self, error: Exception) -> str:  # noqa: PLR0911  one sentence each
        match error:
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return f"{self.name} at {self.where} refuses the user or its password: correct the source's url."
            case asyncpg.InvalidCatalogNameError():
                return f"The database {self.where} does not exist: correct the source's url."
            case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError():
                return (
                    f"In {self.where}, {_reason(error)}: correct the source's table, and write it as the database does."
                )
            case asyncpg.UndefinedColumnError():
                return f"In {self.where}, {_reason(error)}: correct the source's columns, id, order_by or mark_…, or the table."
            case asyncpg.InsufficientPrivilegeError():
                return f"In {self.where}, {_reason(error)}: grant the user of the source's url select, and update for marking."
            case asyncpg.TooManyConnectionsError():
                return f"{self.name} at {self.where} has no connection left: raise its max_connections."
            case asyncpg.CannotConnectNowError() | asyncpg.AdminShutdownError() | asyncpg.CrashShutdownError():
                return f"{self.name} at {self.where} is starting or stopping: the source is retried."
            case TimeoutError():
                return (
                    f"{self.name} at {self.where} did not answer in {CALL:.0f} s: check its load, and whether the columns "
                    "id and order_by have an index."
                )
            case asyncpg.InvalidTextRepresentationError() | asyncpg.DataError():
                return (
                    f"In {self.where}, a value cannot be used: {_reason(error)}. Check the columns id, order_by and mark_… "
                    "of the source's table."
                )
            case (
                OSError() | asyncpg.PostgresConnectionError() | asyncpg.InterfaceError() | asyncpg.InternalClientError()
            ):
                return (
                    f"{self.name} at {self.where} cannot be reached ({_reason(error)}): start it, or correct the url."
                )
        return f"{self.name} at {self.where} answers: {_reason(error)}."


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().rstrip(".").partition("\n")[0]


class PostgresConnection:
    """One connection; between two calls it holds no transaction."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def describe(self, query: str) -> list[KeyColumn]:
        prepared = await self._driver.prepare(query)
        return [
            KeyColumn(each.name, _kind(each.type.name), f'"{each.type.schema}"."{each.type.name}"')
            for each in prepared.get_attributes()
        ]

    async def fetch(self, query: TableQuery) -> list[Sequence[Any]]:
        text, values, _ = expand(query, _place)
        rows: list[Sequence[Any]] = await self._driver.fetch(text, *values)
        return rows

    async def stream(self, query: TableQuery) -> AsyncGenerator[Row, None]:
        text, values, _ = expand(query, _place)
        transaction = self._driver.transaction(readonly=True)
        await transaction.start()
        try:
            cursor = await self._driver.cursor(text, *values)
            count = FIRST_ROWS
            while rows := await cursor.fetch(count, timeout=CALL):
                heaviest = 1
                for row in rows:
                    whole = dict(row)
                    heaviest = max(heaviest, weigh(whole))
                    yield whole
                count = max(1, min(MOST_ROWS, PORTION // heaviest))
        except GeneratorExit:
            await transaction.rollback()
            raise
        await transaction.commit()  # after an error the connection is dropped, and the first error counts

    async def run(self, queries: Sequence[TableQuery]) -> None:
        transaction = self._driver.transaction()
        await transaction.start()
        for query in queries:
            text, values, _ = expand(query, _place)
            await self._driver.execute(text, *values)
        await (
            transaction.commit()
        )  # after an error the connection is dropped: a silent server would not roll back either

    @property
    def is_open(self) -> bool:
        return not self._driver.is_closed()

    def drop(self) -> None:
        self._driver.terminate()

    async def close(self) -> None:
        async with asyncio.timeout(CONNECT):
            await self._driver.close()


def _place(number: int, column: KeyColumn | None) -> str:
    mark = f"cast(${number} as text)"
    return f"cast({mark} as {column.type})" if column else mark


def _kind(type_name: str) -> str:
    for kind, names in (("number", NUMBERS), ("time", TIMES), ("text", TEXTS)):
        if type_name in names:
            return kind
    return type_name
