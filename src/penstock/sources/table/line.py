"""The way to another database: one connection, opened with its first use and after each trouble.

Whatever goes wrong on it drops it: what the server still sends, or whether it has heard, is then nobody's concern.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from penstock.errors import PenstockError
from penstock.settings.arriving import SourceSettings
from penstock.sources.source import Trouble
from penstock.sources.table.dialect import Connection, Dialect
from penstock.sources.table.queries import Queries, check_columns
from penstock.telemetry import mask


class Line:
    """Used by one task at a time."""

    def __init__(self, dialect: Dialect, chosen: SourceSettings) -> None:
        self.dialect = dialect
        self._chosen = chosen
        self._opened: tuple[Connection, Queries] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Connection, Queries]]:
        """The connection, and the statements for the table as it is now; `Trouble` for what is not of ours."""
        try:
            if self._opened is not None and not self._opened[0].is_open:
                self._opened = None
            if self._opened is None:
                self._opened = await self._connect()
            yield self._opened
        except BaseException as error:
            self._drop()
            if isinstance(error, Exception) and not isinstance(error, PenstockError):
                raise Trouble(mask(self.dialect.explain(error))) from error
            raise

    async def _connect(self) -> tuple[Connection, Queries]:
        connection = await self.dialect.connect()
        try:
            id_column, order, *_ = await connection.describe(Queries.shape(self.dialect, self._chosen))
            check_columns(self.dialect, self._chosen, id_column, order)
        except BaseException:
            connection.drop()
            raise
        return connection, Queries(self.dialect, self._chosen, id_column, order)

    def _drop(self) -> None:
        if self._opened is not None:
            self._opened[0].drop()
            self._opened = None

    async def close(self) -> None:
        """Say goodbye; a server that does not listen is left alone."""
        if self._opened is not None:
            with suppress(Exception):
                await self._opened[0].close()
            self._drop()
