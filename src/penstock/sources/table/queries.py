"""Queries of one table of another database, its rows as messages, and its connection.

Statements are composed, since the names vary, from quoted names alone, never from values.
"""

import base64
import json
import math
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

from penstock.documents import SourceMessage, encode_payload
from penstock.errors import BadValue, PenstockError
from penstock.settings import SourceSettings
from penstock.sources.source import MessageOutcome, Trouble
from penstock.sources.table.dialect import Connection, Dialect, KeyColumn, TableQuery
from penstock.telemetry import mask

NUMBER, ORDER = "penstock_id", "penstock_order"  # the texts of a row's keys, in addition to its columns
REASON_MAX = 1000  # characters of a reason that is written to a column


def parse_json(text: str) -> Any:
    """A text parsed as JSON; the text itself if it is not JSON."""
    try:
        return json.loads(text, parse_float=_float)
    except (ValueError, RecursionError):
        return text


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def to_json(value: Any) -> Any:  # noqa: PLR0911  one for each type
    """A value of a column as JSON has it: times as ISO 8601, decimals as text, bytes as base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case dict():
            return {str(name): to_json(each) for name, each in value.items()}
        case list() | tuple() | set():
            return [to_json(each) for each in value]
    return str(value)  # uuid, inet, interval, range …


def to_message(
    row: Mapping[str, Any], *, leave_out: Collection[str], json_columns: Collection[str], largest: int
) -> tuple[SourceMessage, int]:
    """The message of a row, and its bytes; one that cannot be used has the reason."""
    number = str(row[NUMBER])
    payload = {
        name: parse_json(value) if name in json_columns and isinstance(value, str) else to_json(value)
        for name, value in row.items()
        if name not in leave_out
    }
    try:
        size = len(encode_payload(SourceMessage(number, payload)))
    except BadValue as error:
        return SourceMessage(number, {"id": number[:200]}, poison=str(error)), 200
    if size > largest:
        reason = f"The row has {size:,} bytes as JSON, more than {largest:,} (largest of its source): raise the limit."
        return SourceMessage(number, {"id": number[:200]}, poison=reason), size
    return SourceMessage(number, payload), size


class RowKey(NamedTuple):
    """A row's place in the order, as the other database writes it."""

    order: str
    id: str


class Queries:
    """The queries of a table whose key columns have these types."""

    def __init__(self, dialect: Dialect, chosen: SourceSettings, id_column: KeyColumn, order: KeyColumn) -> None:
        self._dialect = dialect
        self._chosen = chosen
        self._columns = {"id": id_column, "ids": id_column, "order": order, "low": order}
        self.order = order
        self._table = dialect.quote(chosen.table or "")
        self._from = f"from {self._table}"
        self._id, self._order = dialect.quote(chosen.id or ""), dialect.quote(order_name(chosen))
        self._is_id = self._id == self._order
        self._keys = f"{dialect.text_of(self._order)} as {ORDER}, {dialect.text_of(self._id)} as {NUMBER}"
        wanted = chosen.column_names("columns")
        whole = ", ".join(dialect.quote(name) for name in wanted) if wanted else "penstock_row.*"
        self._whole = f"select {self._keys}, {whole} {self._from} as penstock_row"

    @classmethod
    def shape(cls, dialect: Dialect, chosen: SourceSettings) -> str:
        """A query without rows, for the types of the keys and for what is wrong with the names."""
        names = [chosen.id or "", order_name(chosen), *chosen.column_names("columns")]
        if chosen.mark_status:
            names.append(chosen.mark_status)
        if chosen.mark_error:
            names.append(chosen.mark_error)
        listed = ", ".join(f"{dialect.quote(name)} as k{number}" for number, name in enumerate(names))
        return " ".join(["select", listed, "from", dialect.quote(chosen.table or ""), "where 1 = 0"])

    # -- in the order of what is new ----------------------------------------------------------------------------------

    def newer(self, after: RowKey | None, most: int) -> TableQuery:
        """Whole rows after a key; from the first one on if there is none."""
        return self._query(f"{self._whole} where {self._present()}{self._after(after)} {self._sorted(most)}", after)

    def again(self, low: RowKey, upto: RowKey, after: RowKey | None, most: int) -> TableQuery:
        """Keys from a bit below `low` to `upto`, after `after`: rows that were committed late are among them."""
        by = self._chosen.overlap_time if self.order.kind == "time" else self._chosen.overlap
        least = self._dialect.earlier(":low", self.order, by)
        values = {"low": low.order, "top": upto.order, "topid": upto.id}
        text = f"select {self._keys} {self._from} where {self._present()} and {self._order} >= {least}{self._upto()}"
        return self._query(f"{text}{self._after(after)} {self._sorted(most)}", after, values)

    def last(self, upto: RowKey, most: int) -> TableQuery:
        """The keys before and at one: what `again` is for, with keys of which nothing can be subtracted."""
        text = f"select {self._keys} {self._from} where {self._present()}{self._upto()}"
        ending = f"order by {self._order} desc, {self._id} desc" if not self._is_id else f"order by {self._id} desc"
        return self._query(f"{text} {ending} {self._dialect.first(most)}", None, {"top": upto.order, "topid": upto.id})

    # -- by id --------------------------------------------------------------------------------------------------------

    def page(self, after: str | None, most: int) -> TableQuery:
        """Ids after one, of all rows."""
        behind = "" if after is None else f" and {self._id} > :id"
        text = f"select {self._dialect.text_of(self._id)} as {NUMBER} {self._from} where {self._id} is not null"
        return self._query(
            f"{text}{behind} order by {self._id} {self._dialect.first(most)}",
            None,
            {} if after is None else {"id": after},
        )

    def whole(self, ids: Sequence[str], upto: RowKey | None) -> TableQuery:
        """Whole rows by their ids, without those after a key, which `newer` is going to read."""
        text = f"{self._whole} where {self._id} in :ids"
        if upto is None:
            return self._query(text, None, {"ids": ids})
        known = f"{self._order} is null or (1 = 1{self._upto()})"
        return self._query(f"{text} and ({known})", None, {"ids": ids, "top": upto.order, "topid": upto.id})

    def unnumbered(self) -> TableQuery:
        """How many rows have no id."""
        return TableQuery(f"select count(*) {self._from} where {self._id} is null")

    def marks(self, outcomes: Sequence[MessageOutcome]) -> list[TableQuery]:
        """Write outcomes to the rows; all rows with the same outcome at once."""
        alike: dict[tuple[str, str], list[str]] = {}
        for outcome in outcomes:
            alike.setdefault((outcome.status, outcome.reason[:REASON_MAX]), []).append(outcome.message_id)
        found = []
        for (status, reason), ids in alike.items():
            places = {}
            if self._chosen.mark_status:
                places[self._chosen.mark_status] = ("status", status)
            if self._chosen.mark_error:
                places[self._chosen.mark_error] = ("reason", reason)
            sets = ", ".join(
                f"{self._dialect.quote(name)} = :{value}" if text else f"{self._dialect.quote(name)} = null"
                for name, (value, text) in places.items()
            )
            values = {value: text for value, text in places.values() if text}
            text = " ".join(["update", self._table, "set", sets, "where", self._id, "in :ids"])
            found.append(self._query(text, None, {"ids": sorted(ids), **values}))
        return found

    # -- parts --------------------------------------------------------------------------------------------------------

    def _query(
        self, text: str, after: RowKey | None, values: Mapping[str, str | Sequence[str]] | None = None
    ) -> TableQuery:
        columns = self._columns | {"top": self.order, "topid": self._columns["id"]}
        behind = {} if after is None else {"order": after.order, "id": after.id}
        return TableQuery(text, {**behind, **(values or {})}, columns)

    def _present(self) -> str:
        order = "" if self._is_id else f" and {self._order} is not null"
        return f"{self._id} is not null{order}"

    def _after(self, after: RowKey | None) -> str:
        if after is None:
            return ""
        if self._is_id:
            return f" and {self._id} > :id"
        if self._dialect.compares_rows:  # by an index on both, however many rows have the same time
            return f" and ({self._order}, {self._id}) > (:order, :id)"
        return f" and {self._order} >= :order and ({self._order} > :order or {self._id} > :id)"

    def _upto(self) -> str:
        if self._is_id:
            return f" and {self._id} <= :topid"
        return f" and {self._order} <= :top and ({self._order} < :top or {self._id} <= :topid)"

    def _sorted(self, most: int) -> str:
        keys = self._id if self._is_id else f"{self._order}, {self._id}"
        return f"order by {keys} {self._dialect.first(most)}"


def order_name(chosen: SourceSettings) -> str:
    return chosen.order_by or chosen.id or ""


def check_columns(dialect: Dialect, chosen: SourceSettings, id_column: KeyColumn, order: KeyColumn) -> None:
    """Both must be of a type whose text is exact and has an order."""
    alone = {"text"} if order_name(chosen) == chosen.id else set()
    for setting, name, column, kinds in (
        ("id", chosen.id, id_column, {"number", "time", "text"}),
        ("order_by", order_name(chosen), order, {"number", "time"} | alone),
    ):
        if column.kind not in kinds:
            raise Trouble(
                f"The column {name} of {chosen.table} in {dialect.where} is of the type {column.kind}, which cannot be "
                f"{setting}: take one with whole numbers or times, for id also text or uuid, or make a view with such a column."
            )


class TableConnection:
    """Used by one task at a time."""

    def __init__(self, dialect: Dialect, chosen: SourceSettings) -> None:
        self.dialect = dialect
        self._chosen = chosen
        self._opened: tuple[Connection, Queries] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Connection, Queries]]:
        """The connection, and the statements for the table as it is now; `Trouble` for errors of the other database."""
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
        """Close the connection; without waiting for a server that does not answer."""
        if self._opened is not None:
            with suppress(Exception):
                await self._opened[0].close()
            self._drop()
