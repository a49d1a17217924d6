"""A table or view of another database as a source: new rows in their order, rows that were committed late, and a sweep of all.

New rows are read in batches after the last key. The keys shortly before it are compared with the inbox, because a transaction
may commit a smaller key later. A sweep compares the whole table with the inbox, in batches with rests between them.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from math import inf
from typing import Any

from penstock.documents import Position, SourceMessage
from penstock.errors import BadSetting
from penstock.sources.source import MessageOutcome, SourceCheck, SourceContext, poll_forever, summarise
from penstock.sources.table.dialect import Connection, TableQuery, choose_dialect
from penstock.sources.table.queries import NUMBER, ORDER, RowKey, TableConnection, order_name, to_message
from penstock.telemetry import log

BATCH_BYTES = 32 * 2**20  # of a batch as JSON; large rows come in smaller batches
KEYS = 5_000  # compared at once
WHOLE = 500  # rows that are read by id at once
LEAST_REST = 0.05  # seconds between batches of a sweep; else as long as the batch took
PAUSES = 9  # times as long as a check of the overlap took, it is not repeated


@dataclass(slots=True)
class RowBatch:
    messages: list[SourceMessage] = field(default_factory=list)
    last: RowKey | None = None
    rows: int = 0
    is_whole: bool = True  # else the rest did not fit


class Reader:
    """The table of one source. Between two calls it holds nothing but its connection."""

    def __init__(self, context: SourceContext, connection: TableConnection) -> None:
        self.context = context
        self._chosen = context.chosen
        self._connection = connection
        self._by = ""
        self._json = frozenset(self._chosen.column_names("json_columns"))
        self._leave_out = frozenset(self._names_left_out())

    def _names_left_out(self) -> list[str]:
        """Columns that marking changes are not content: a mark would be a new version, which is marked again, for ever."""
        names = [NUMBER, ORDER, self._chosen.mark_status or "", self._chosen.mark_error or ""]
        if not self._chosen.column_names("columns") and self._chosen.order_by not in {None, self._chosen.id}:
            names.append(self._chosen.order_by or "")
        return names

    def key_of(self, position: Position) -> RowKey | None:
        """The last key that was read; None if it was read by another column before, or one of another type."""
        kept = position.value
        if not isinstance(kept, dict) or kept.get("by") != self._by:
            return None
        return RowKey(kept["order"], kept["id"])

    def onward(self, key: RowKey) -> dict[str, str]:
        """The position at a key."""
        return {"by": self._by, "order": key.order, "id": key.id}

    async def newer(self, position: Position) -> RowBatch:
        """The next rows in their order."""
        async with self._connection.open() as (connection, queries):
            self._by = f"{order_name(self._chosen)} ({queries.order.kind})"
            return await self._read(connection, queries.newer(self.key_of(position), self._chosen.batch))

    async def overlap(self, low: RowKey, upto: RowKey, after: RowKey | None) -> tuple[list[RowKey], bool]:
        """Keys a bit below `low` and up to `upto`, after `after`; and whether these are the last."""
        async with self._connection.open() as (connection, queries):
            if queries.order.kind == "text":
                found = await connection.fetch(queries.last(upto, self._chosen.overlap))
                return [RowKey(str(order), str(number)) for order, number in found], True
            found = await connection.fetch(queries.again(low, upto, after, KEYS))
        return [RowKey(str(order), str(number)) for order, number in found], len(found) < KEYS

    async def page(self, after: str | None) -> tuple[list[str], bool]:
        """Ids of rows after one; and whether these are the last."""
        async with self._connection.open() as (connection, queries):
            found = await connection.fetch(queries.page(after, KEYS))
        return [str(row[0]) for row in found], len(found) < KEYS

    async def count_unnumbered(self) -> int:
        """Rows without an id."""
        async with self._connection.open() as (connection, queries):
            [[count]] = await connection.fetch(queries.unnumbered())
        return int(count)

    async def bring(self, ids: Sequence[str], position: Position) -> Position:
        """Read those of these rows that never came, and take them in; the position then, whose value has not moved."""
        upto = self.key_of(position)
        missing = await self.context.unknown([each for each in ids if each])
        if missing:
            log.info("rows that came late are read", source=self.context.name, rows=len(missing))
        for start in range(0, len(missing), WHOLE):
            wanted = missing[start : start + WHOLE]
            while wanted:
                async with self._connection.open() as (connection, queries):
                    batch = await self._read(connection, queries.whole(wanted, upto))
                if batch.messages:
                    await self.context.receive(batch.messages, position=position, onward=position.value)
                    position = await self.context.position()
                came = {message.id for message in batch.messages}
                wanted = [] if batch.is_whole else [each for each in wanted if each not in came]
        return position

    async def _read(self, connection: Connection, query: TableQuery) -> RowBatch:
        batch, size = RowBatch(), 0
        async with aclosing(connection.stream(query)) as rows:
            async for row in rows:
                batch.last, batch.rows = RowKey(str(row[ORDER]), str(row[NUMBER])), batch.rows + 1
                if not batch.last.id:
                    continue  # an empty text is not an id; the sweep counts it
                message, weight = to_message(
                    row, leave_out=self._leave_out, json_columns=self._json, largest=self._chosen.largest
                )
                batch.messages.append(message)
                size += weight
                if size > BATCH_BYTES:
                    batch.is_whole = False
                    break
        return batch


class Sweep:
    """The comparison of a whole table with the inbox, by this process."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._context = reader.context
        self.rest = inf  # seconds until the next batch, at most

    def is_due(self, position: Position) -> bool:
        """Whether one is under way, or the last one of the whole fleet is long enough ago."""
        if "after" in _state(position):
            return True
        return position.swept_ago is None or position.swept_ago >= self._context.chosen.sweep_every

    def findings(self, position: Position) -> list[str]:
        """Findings of the last sweep that only the owner of the table can fix."""
        count = _state(position).get("unnumbered", 0)
        if not count:
            return []
        chosen = self._context.chosen
        return [
            f"{count:,} rows of {chosen.table} have no {chosen.id} and cannot be read: give them one, or leave them out by "
            "a view. The other rows are read."
        ]

    async def run_batch(self) -> None:
        """Compare the next rows, if it is time."""
        self.rest = inf
        position = await self._context.position()
        if not self.is_due(position):
            return
        began, state = time.monotonic(), _state(position)
        after = state.get("after")
        seen = await self._reader.count_unnumbered() if after is None else state["seen"]
        ids, is_last = await self._reader.page(after)
        seen += ids.count("")
        await self._reader.bring(ids, position)
        if (await self._context.position()).sweep != position.sweep:
            self.rest = LEAST_REST
            return  # another worker has compared this batch, too, and noted it
        if is_last:
            await self._context.inbox.note_sweep(self._context.name, {"unnumbered": seen}, complete=True)
            return
        going_on = {"after": ids[-1], "seen": seen, "unnumbered": state.get("unnumbered", 0)}
        await self._context.inbox.note_sweep(self._context.name, going_on, complete=False)
        self.rest = max(LEAST_REST, time.monotonic() - began)


def _state(position: Position) -> dict[str, Any]:
    return position.sweep if isinstance(position.sweep, dict) else {}


def open_source(context: SourceContext) -> "TableSource":
    """The source of these settings; nothing is connected yet."""
    if context.chosen.url is None:
        raise BadSetting(f"sources.{context.name}.url is not set: a table needs it.")
    dialect = choose_dialect(context.chosen.url.get_secret_value())
    return TableSource(context, TableConnection(dialect, context.chosen), TableConnection(dialect, context.chosen))


class TableSource:
    """Reads by one connection, and marks by another: the first may be busy for a while."""

    def __init__(self, context: SourceContext, reading: TableConnection, marking: TableConnection) -> None:
        self.context = context
        self._chosen = context.chosen
        self._reading = reading
        self._marking = marking
        self._reader = Reader(context, reading)
        self._sweep = Sweep(self._reader)
        self._checked: RowKey | None = None  # where the position was at the last check of the overlap
        self._check_from = 0.0  # not before, by the clock of this process

    async def run(self) -> None:
        await poll_forever(self, self.context)

    async def poll(self) -> bool:
        """One batch of new rows, then a check of the overlap, then a batch of the sweep if it is time."""
        position = await self.context.position()
        self.context.findings[:] = self._sweep.findings(position)
        batch = await self._reader.newer(position)
        if batch.last is not None:
            await self.context.receive(batch.messages, position=position, onward=self._reader.onward(batch.last))
            position = await self.context.position()
        await self._check_overlap(position)
        if not batch.is_whole or batch.rows == self._chosen.batch:
            return True
        await self._sweep.run_batch()
        return False

    async def rest(self, seconds: float) -> None:
        """Not all workers at the same moment; shorter while a sweep is under way."""
        await asyncio.sleep(min(seconds, self._sweep.rest) * random.uniform(0.8, 1.2))  # noqa: S311  no secret

    async def check(self) -> SourceCheck:
        """The next batch of new rows. Rows that were committed late, which a sweep finds, are not among them."""
        position = await self.context.peek_position()
        batch = await self._reader.newer(position)
        news = await self.context.news(batch.messages)
        more = not batch.is_whole or batch.rows == self._chosen.batch
        return summarise(news, more=more, findings=self._sweep.findings(position))

    async def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        async with self._marking.open() as (connection, queries):
            await connection.run(queries.marks(outcomes))

    async def close(self) -> None:
        await self._reading.close()
        await self._marking.close()

    async def _check_overlap(self, position: Position) -> None:
        """Compare the keys of the overlap, and of all that came since the last check, with the inbox.

        In a tenth of the time, at most: an overlap of minutes may have a million rows.
        """
        upto = self._reader.key_of(position)
        began = time.monotonic()
        if upto is None or began < self._check_from:
            return
        low, after, is_last = self._checked or upto, None, False
        while not is_last:
            keys, is_last = await self._reader.overlap(low, upto, after)
            position = await self._reader.bring([key.id for key in keys], position)
            after = keys[-1] if keys else None
        self._checked = upto
        ended = time.monotonic()
        self._check_from = ended + PAUSES * (ended - began)
