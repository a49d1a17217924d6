"""Reads one table: batches of new rows, keys, and rows by their numbers; and brings those that never came."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from penstock.documents import Message, Position
from penstock.sources.source import Desk
from penstock.sources.table.dialect import Connection, Query
from penstock.sources.table.line import Line
from penstock.sources.table.queries import Key, order_name
from penstock.sources.table.row import NUMBER, ORDER, to_message
from penstock.telemetry import log

BATCH_BYTES = 32 * 2**20  # of a batch as JSON; large rows come in smaller batches
KEYS = 5_000  # compared at once
WHOLE = 500  # rows asked for by number at once


@dataclass(slots=True)
class Batch:
    """Rows as messages."""

    messages: list[Message] = field(default_factory=list)
    last: Key | None = None
    rows: int = 0
    is_whole: bool = True  # else the rest did not fit


class Reader:
    """The table of one source. Between two calls it holds nothing but its connection."""

    def __init__(self, desk: Desk, line: Line) -> None:
        self.desk = desk
        self._chosen = desk.chosen
        self._line = line
        self._by = ""
        self._json = frozenset(self._chosen.column_names("json_columns"))
        self._leave_out = frozenset(self._names_left_out())

    def _names_left_out(self) -> list[str]:
        """What marking changes is no content: a mark would be a new version, which is marked again, for ever."""
        names = [NUMBER, ORDER, self._chosen.mark_status or "", self._chosen.mark_error or ""]
        if not self._chosen.column_names("columns") and self._chosen.order_by not in {None, self._chosen.id}:
            names.append(self._chosen.order_by or "")
        return names

    def key_of(self, position: Position) -> Key | None:
        """Where to go on; from the beginning if it was read by another column before, or one of another type."""
        kept = position.value
        if not isinstance(kept, dict) or kept.get("by") != self._by:
            return None
        return Key(kept["order"], kept["id"])

    def onward(self, key: Key) -> dict[str, str]:
        """The position at a key."""
        return {"by": self._by, "order": key.order, "id": key.id}

    async def newer(self, position: Position) -> Batch:
        """The next rows in their order."""
        async with self._line.open() as (connection, queries):
            self._by = f"{order_name(self._chosen)} ({queries.order.kind})"
            return await self._read(connection, queries.newer(self.key_of(position), self._chosen.batch))

    async def overlap(self, low: Key, upto: Key, after: Key | None) -> tuple[list[Key], bool]:
        """Keys a bit below `low` and up to `upto`, behind `after`; and whether these are the last."""
        async with self._line.open() as (connection, queries):
            if queries.order.kind == "text":
                found = await connection.fetch(queries.last(upto, self._chosen.overlap))
                return [Key(str(order), str(number)) for order, number in found], True
            found = await connection.fetch(queries.again(low, upto, after, KEYS))
        return [Key(str(order), str(number)) for order, number in found], len(found) < KEYS

    async def page(self, after: str | None) -> tuple[list[str], bool]:
        """Numbers of rows behind one; and whether these are the last."""
        async with self._line.open() as (connection, queries):
            found = await connection.fetch(queries.page(after, KEYS))
        return [str(row[0]) for row in found], len(found) < KEYS

    async def count_unnumbered(self) -> int:
        """Rows without a number."""
        async with self._line.open() as (connection, queries):
            [[count]] = await connection.fetch(queries.unnumbered())
        return int(count)

    async def bring(self, ids: Sequence[str], position: Position) -> Position:
        """Read those of these rows that never came, and take them in; the position then, whose value has not moved."""
        upto = self.key_of(position)
        missing = await self.desk.unknown([each for each in ids if each])
        if missing:
            log.info("rows that came late are read", source=self.desk.name, rows=len(missing))
        for start in range(0, len(missing), WHOLE):
            wanted = missing[start : start + WHOLE]
            while wanted:
                async with self._line.open() as (connection, queries):
                    batch = await self._read(connection, queries.whole(wanted, upto))
                if batch.messages:
                    await self.desk.receive(batch.messages, position=position, onward=position.value)
                    position = await self.desk.position()
                came = {message.id for message in batch.messages}
                wanted = [] if batch.is_whole else [each for each in wanted if each not in came]
        return position

    async def _read(self, connection: Connection, query: Query) -> Batch:
        batch, size = Batch(), 0
        async with aclosing(connection.stream(query)) as rows:
            async for row in rows:
                batch.last, batch.rows = Key(str(row[ORDER]), str(row[NUMBER])), batch.rows + 1
                if not batch.last.id:
                    continue  # an empty text is no number; the sweep counts it
                message, weight = to_message(
                    row, leave_out=self._leave_out, json_columns=self._json, largest=self._chosen.largest
                )
                batch.messages.append(message)
                size += weight
                if size > BATCH_BYTES:
                    batch.is_whole = False
                    break
        return batch
