"""SQL Server as the other database, by aioodbc and Microsoft's ODBC driver. UNTESTED: no SQL Server was there to try it.

`mssql://user:password@host:1433/database?driver=ODBC Driver 18 for SQL Server&encrypt=yes&trust=no`.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any

from penstock.errors import BadSetting
from penstock.sources.table.dialect import CALL, CONNECT, KeyColumn, Row, TableQuery, expand, parse_address, quoted

ROWS = 20  # taken from the stream at once
DRIVER = "ODBC Driver 18 for SQL Server"
NUMBERS = ("bigint", "int", "smallint", "tinyint", "decimal", "numeric")
TIMES = ("datetime2", "datetimeoffset", "smalldatetime", "datetime", "date")
TEXTS = ("nvarchar", "varchar", "nchar", "char", "uniqueidentifier")


class MsSql:
    """A SQL Server, at one address. UNTESTED."""

    name = "SQL Server"
    compares_rows = False

    def __init__(self, url: str) -> None:
        self._address = parse_address(url, 1433)
        self.where = self._address.where

    def quote(self, name: str) -> str:
        return quoted(name, "[", "]")

    def text_of(self, quoted: str) -> str:
        return f"convert(nvarchar(450), {quoted}, 121)"  # 121: a time with all its digits

    def earlier(self, place: str, column: KeyColumn, by: int | timedelta) -> str:
        if isinstance(by, timedelta):
            return f"dateadd(second, -{int(by.total_seconds())}, cast({place} as {column.type}))"
        return f"cast({place} as decimal(38)) - {by}"

    def first(self, count: int) -> str:
        return f"offset 0 rows fetch next {count} rows only"

    async def connect(self) -> "MsSqlConnection":
        try:
            import aioodbc  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise BadSetting("A mssql:// table needs aioodbc: pip install 'penstock[mssql]'.") from None
        at, options = self._address, self._address.options
        parts = {
            "DRIVER": options.get("driver", DRIVER),
            "SERVER": f"{at.host},{at.port}",
            "DATABASE": at.database,
            "UID": at.user,
            "PWD": at.password,
            "Encrypt": options.get("encrypt", "yes"),
            "TrustServerCertificate": options.get("trust", "no"),
            "ApplicationIntent": "ReadWrite",
        }
        text = ";".join(f"{name}={{{value.replace('}', '}}')}}}" for name, value in parts.items())
        async with asyncio.timeout(CONNECT):
            driver = await aioodbc.connect(dsn=text, autocommit=True, timeout=int(CONNECT))
        return MsSqlConnection(driver)

    def explain(self, error: Exception) -> str:
        state = str(error.args[0]) if error.args else ""
        said = (str(error.args[-1]) if error.args else type(error).__name__).partition("\n")[0].rstrip(".")
        sentences = {
            "28000": f"SQL Server at {self.where} refuses the user or its password: correct the source's url.",
            "42S02": f"In {self.where}: {said}. Correct the source's table.",
            "42S22": f"In {self.where}: {said}. Correct the source's columns, id, order_by or mark_…, or the table.",
            "08001": f"SQL Server at {self.where} cannot be reached: start it, or correct the source's url.",
            "08S01": f"SQL Server at {self.where} has cut the connection: the source is retried.",
            "IM002": "The ODBC driver is missing: install Microsoft's msodbcsql18, or name yours by ?driver= in the url.",
        }
        if isinstance(error, TimeoutError):
            return (
                f"SQL Server at {self.where} did not answer in {CALL:.0f} s: check its load, and whether the columns id "
                "and order_by have an index."
            )
        return sentences.get(state, f"SQL Server at {self.where} answers: {said}.")


class MsSqlConnection:
    """One connection; the driver works in a thread. UNTESTED."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def describe(self, query: str) -> list[KeyColumn]:
        ask = "select name, system_type_name from sys.dm_exec_describe_first_result_set(?, null, 0) order by column_ordinal"
        async with asyncio.timeout(CALL), self._driver.cursor() as cursor:
            await cursor.execute(query)  # for its errors
            await cursor.execute(ask, query)
            return [KeyColumn(name, _kind(type_name), type_name) for name, type_name in await cursor.fetchall()]

    async def fetch(self, query: TableQuery) -> list[Sequence[Any]]:
        text, values, _ = expand(query, _place)
        async with asyncio.timeout(CALL), self._driver.cursor() as cursor:
            await cursor.execute(text, *values)
            rows: list[Sequence[Any]] = await cursor.fetchall()
            return rows

    async def stream(self, query: TableQuery) -> AsyncGenerator[Row, None]:
        text, values, _ = expand(query, _place)
        async with self._driver.cursor() as cursor:
            async with asyncio.timeout(CALL):
                await cursor.execute(text, *values)
            names = [each[0] for each in cursor.description]
            while True:
                async with asyncio.timeout(CALL):
                    rows = await cursor.fetchmany(ROWS)
                if not rows:
                    return
                for row in rows:
                    yield dict(zip(names, row, strict=True))

    async def run(self, queries: Sequence[TableQuery]) -> None:
        async with asyncio.timeout(CALL), self._driver.cursor() as cursor:
            await cursor.execute("set xact_abort on; begin transaction")
            for query in queries:
                text, values, _ = expand(query, _place)
                await cursor.execute(text, *values)
            await cursor.execute("commit transaction")

    @property
    def is_open(self) -> bool:
        return not self._driver.closed

    def drop(self) -> None:
        """Closing waits for the thread of the driver, in the background."""
        task = asyncio.ensure_future(self._driver.close())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def close(self) -> None:
        async with asyncio.timeout(CONNECT):
            await self._driver.close()


def _place(_number: int, column: KeyColumn | None) -> str:
    return f"cast(? as {column.type})" if column else "?"


def _kind(type_name: str) -> str:
    plain = type_name.partition("(")[0]
    for kind, names in (("number", NUMBERS), ("time", TIMES), ("text", TEXTS)):
        if plain in names:
            return kind
    return plain
