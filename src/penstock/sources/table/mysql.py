"""MariaDB and MySQL as the other database, by asyncmy (`pip install penstock[mysql]`)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from penstock.errors import BadSetting
from penstock.sources.table.dialect import CALL, CONNECT, KeyColumn, Row, TableQuery, expand, parse_address, quoted
from penstock.sources.table.queries import parse_json

ROWS = 20  # taken from the stream at once
NUMBERS = {0, 1, 2, 3, 8, 9, 246}  # DECIMAL, TINY, SHORT, LONG, LONGLONG, INT24, NEWDECIMAL
TIMES = {7, 10, 12}  # TIMESTAMP, DATE, DATETIME
TEXTS = {15, 253, 254}  # VARCHAR, VAR_STRING, STRING; a uuid is a STRING
JSON = 245  # of MySQL; MariaDB's JSON is a text


class MySql:
    """A MariaDB or MySQL, at one address. `?ssl=true` asks for TLS, `?unix_socket=` names a socket."""

    name = "MySQL"
    compares_rows = False

    def __init__(self, url: str) -> None:
        self._address = parse_address(url, 3306)
        self.where = self._address.where

    def quote(self, name: str) -> str:
        return quoted(name, "`", "`")

    def text_of(self, quoted: str) -> str:
        return f"cast({quoted} as char)"

    def earlier(self, place: str, column: KeyColumn, by: int | timedelta) -> str:
        if isinstance(by, timedelta):
            return f"cast({place} as datetime(6)) - interval {by.total_seconds():f} second"
        return f"cast({place} as decimal(65)) - {by}"  # below zero an unsigned number is an error

    def first(self, count: int) -> str:
        return f"limit {count}"

    async def connect(self) -> "MySqlConnection":
        try:
            import asyncmy
        except ImportError:
            raise BadSetting("A mysql:// table needs asyncmy: pip install 'penstock[mysql]'.") from None
        options = self._address.options
        ways: dict[str, Any] = {"unix_socket": options["unix_socket"]} if options.get("unix_socket") else {}
        if options.get("ssl") in {"true", "1", "yes"}:
            import ssl

            ways["ssl"] = ssl.create_default_context(cafile=options.get("ca"))
        async with asyncio.timeout(CONNECT):
            driver = await asyncmy.connect(
                host=self._address.host,
                port=self._address.port,
                user=self._address.user,
                password=self._address.password,
                database=self._address.database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=int(CONNECT),
                init_command="set time_zone = '+00:00'",  # a TIMESTAMP as text is read back as the same moment
                **ways,
            )
        return MySqlConnection(driver)

    def explain(self, error: Exception) -> str:
        number, said = _said(error)
        sentences = {
            1040: f"MySQL at {self.where} has no connection left: raise its max_connections.",
            1044: f"The user of the source's url may not use the database at {self.where}: grant it select.",
            1045: f"MySQL at {self.where} refuses the user or its password: correct the source's url.",
            1698: f"MySQL at {self.where} refuses the user or its password: correct the source's url.",
            1049: f"The database {self.where} does not exist: correct the source's url.",
            1054: f"In {self.where}: {said}. Correct the source's columns, id, order_by or mark_…, or the table.",
            1142: f"In {self.where}: {said}. Grant the user of the source's url select, and update for marking.",
            1143: f"In {self.where}: {said}. Grant the user of the source's url select, and update for marking.",
            1146: f"In {self.where}: {said}. Correct the source's table.",
            1053: f"MySQL at {self.where} is stopping: the source is retried.",
        }
        if number in sentences:
            return sentences[number]
        if isinstance(error, TimeoutError):
            return (
                f"MySQL at {self.where} did not answer in {CALL:.0f} s: check its load, and whether the columns id and "
                "order_by have an index."
            )
        if isinstance(error, OSError | EOFError) or number in {2003, 2006, 2013, 2055}:
            return f"MySQL at {self.where} cannot be reached ({said}): start it, or correct the source's url."
        return f"MySQL at {self.where} answers: {said}."


def _said(error: Exception) -> tuple[int, str]:
    """The code and the text of a driver's error."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    words = str(error.args[1]) if len(error.args) > 1 else str(error)
    return number, (words or type(error).__name__).strip().rstrip(".").partition("\n")[0]


class MySqlConnection:
    """One connection; each statement is a transaction of its own, but for marking."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._is_dropped = False

    async def describe(self, query: str) -> list[KeyColumn]:
        async with asyncio.timeout(CALL), self._driver.cursor() as cursor:
            await cursor.execute(query)
            return [KeyColumn(name, _kind(code)) for name, code, *_ in cursor.description]

    async def fetch(self, query: TableQuery) -> list[Sequence[Any]]:
        async with asyncio.timeout(CALL), self._driver.cursor() as cursor:
            await cursor.execute(*_bind(query))
            rows: list[Sequence[Any]] = await cursor.fetchall()
            return rows

    async def stream(self, query: TableQuery) -> AsyncGenerator[Row, None]:
        from asyncmy.cursors import SSCursor

        cursor = self._driver.cursor(cursor=SSCursor)
        ended = False
        try:
            async with asyncio.timeout(CALL):
                await cursor.execute(*_bind(query))
            names = [(each[0], each[1] == JSON) for each in cursor.description]
            while not ended:
                async with asyncio.timeout(CALL):
                    rows = await cursor.fetchmany(ROWS)
                ended = not rows
                for row in rows:
                    yield {
                        name: parse_json(value) if is_json and isinstance(value, str) else value
                        for (name, is_json), value in zip(names, row, strict=True)
                    }
        finally:
            if ended:
                await cursor.close()
            else:
                self.drop()  # nothing stops the server from sending the rest

    async def run(self, queries: Sequence[TableQuery]) -> None:
        async with asyncio.timeout(CALL), self._driver.cursor() as cursor:
            await self._driver.begin()
            for query in queries:
                await cursor.execute(*_bind(query))
            await self._driver.commit()

    @property
    def is_open(self) -> bool:
        return not self._is_dropped

    def drop(self) -> None:
        self._is_dropped = True
        self._driver.close()

    async def close(self) -> None:
        async with asyncio.timeout(CONNECT):
            await self._driver.ensure_closed()


def _bind(query: TableQuery) -> tuple[str, list[Any]]:
    text, values, columns = expand(query, lambda _number, _column: "%s")
    pairs = zip(values, columns, strict=True)
    # A number next to a text would be compared as floats, in which large ones are the same.
    return text, [Decimal(value) if value and column and column.kind == "number" else value for value, column in pairs]


def _kind(code: int) -> str:
    for kind, codes in (("number", NUMBERS), ("time", TIMES), ("text", TEXTS)):
        if code in codes:
            return kind
    return f"a column of type {code}"
