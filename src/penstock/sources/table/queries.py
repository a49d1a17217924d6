"""The statements for one table. They are put together, since the names vary: from quoted names alone, never from values."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.settings.arriving import SourceSettings
from penstock.sources.source import Fate, Trouble
from penstock.sources.table.dialect import Column, Dialect, Query
from penstock.sources.table.row import NUMBER, ORDER

REASON_MAX = 1000  # characters of a reason that a column is told


class Key(NamedTuple):
    """A row's place in the order, as the other database writes it."""

    order: str
    id: str


class Queries:
    """What is asked of a table whose key columns have these types."""

    def __init__(self, dialect: Dialect, chosen: SourceSettings, id_column: Column, order: Column) -> None:
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

    def newer(self, after: Key | None, most: int) -> Query:
        """Whole rows behind a key; from the first one on if there is none."""
        return self._query(f"{self._whole} where {self._present()}{self._after(after)} {self._sorted(most)}", after)

    def again(self, low: Key, upto: Key, after: Key | None, most: int) -> Query:
        """Keys from a bit below `low` to `upto`, behind `after`: rows that were committed late are among them."""
        by = self._chosen.overlap_time if self.order.kind == "time" else self._chosen.overlap
        least = self._dialect.earlier(":low", self.order, by)
        values = {"low": low.order, "top": upto.order, "topid": upto.id}
        text = f"select {self._keys} {self._from} where {self._present()} and {self._order} >= {least}{self._upto()}"
        return self._query(f"{text}{self._after(after)} {self._sorted(most)}", after, values)

    def last(self, upto: Key, most: int) -> Query:
        """The keys before and at one: what `again` is for, with keys of which nothing can be subtracted."""
        text = f"select {self._keys} {self._from} where {self._present()}{self._upto()}"
        ending = f"order by {self._order} desc, {self._id} desc" if not self._is_id else f"order by {self._id} desc"
        return self._query(f"{text} {ending} {self._dialect.first(most)}", None, {"top": upto.order, "topid": upto.id})

    # -- by number ----------------------------------------------------------------------------------------------------

    def page(self, after: str | None, most: int) -> Query:
        """Numbers behind one, of all rows."""
        behind = "" if after is None else f" and {self._id} > :id"
        text = f"select {self._dialect.text_of(self._id)} as {NUMBER} {self._from} where {self._id} is not null"
        return self._query(
            f"{text}{behind} order by {self._id} {self._dialect.first(most)}",
            None,
            {} if after is None else {"id": after},
        )

    def whole(self, ids: Sequence[str], upto: Key | None) -> Query:
        """Whole rows by their numbers, without those behind a key, which `newer` is going to read."""
        text = f"{self._whole} where {self._id} in :ids"
        if upto is None:
            return self._query(text, None, {"ids": ids})
        known = f"{self._order} is null or (1 = 1{self._upto()})"
        return self._query(f"{text} and ({known})", None, {"ids": ids, "top": upto.order, "topid": upto.id})

    def unnumbered(self) -> Query:
        """How many rows have no number."""
        return Query(f"select count(*) {self._from} where {self._id} is null")

    def marks(self, fates: Sequence[Fate]) -> list[Query]:
        """Tell the rows what became of them; all with the same fate at once."""
        alike: dict[tuple[str, str], list[str]] = {}
        for fate in fates:
            alike.setdefault((fate.status, fate.reason[:REASON_MAX]), []).append(fate.message_id)
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

    def _query(self, text: str, after: Key | None, values: Mapping[str, str | Sequence[str]] | None = None) -> Query:
        columns = self._columns | {"top": self.order, "topid": self._columns["id"]}
        behind = {} if after is None else {"order": after.order, "id": after.id}
        return Query(text, {**behind, **(values or {})}, columns)

    def _present(self) -> str:
        order = "" if self._is_id else f" and {self._order} is not null"
        return f"{self._id} is not null{order}"

    def _after(self, after: Key | None) -> str:
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
    """The column by which new rows are found."""
    return chosen.order_by or chosen.id or ""


def check_columns(dialect: Dialect, chosen: SourceSettings, id_column: Column, order: Column) -> None:
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
