"""A table or view of another database, read again and again.

    new rows      behind the position, by (order_by, id), a batch at a time
    the overlap   keys a bit below the position, compared with the inbox: lower numbers may be committed later
    the sweep     now and then the numbers of all rows, compared with the inbox (sweep.py): finds what the others cannot

Rows that are missing are then read in full. Nobody is the leader: whoever moves the position has brought the batch, and the
others are `Overtaken`. Every comparison of keys is made by the other database, in its own values.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from penstock.documents import Position
from penstock.errors import BadSetting
from penstock.sources.source import Desk, Fate, keep_asking
from penstock.sources.table.dialect import choose_dialect
from penstock.sources.table.line import Line
from penstock.sources.table.queries import Key
from penstock.sources.table.reader import Reader
from penstock.sources.table.sweep import Sweep

PAUSES = 9  # times as long as a look at the overlap took, nobody looks again


def open_source(desk: Desk) -> "TableSource":
    """The source of these settings; nothing is connected yet."""
    if desk.chosen.url is None:
        raise BadSetting(f"The source {desk.name} needs a url.")
    dialect = choose_dialect(desk.chosen.url.get_secret_value())
    return TableSource(desk, Line(dialect, desk.chosen), Line(dialect, desk.chosen))


class TableSource:
    """Reads by one connection, and marks by another: the first may be busy for a while."""

    def __init__(self, desk: Desk, reading: Line, marking: Line) -> None:
        self.desk = desk
        self._chosen = desk.chosen
        self._reading = reading
        self._marking = marking
        self._reader = Reader(desk, reading)
        self._sweep = Sweep(self._reader)
        self._looked: Key | None = None  # where the position was at the last look at the overlap
        self._look_from = 0.0  # not before, by the clock of this process

    async def run(self) -> None:
        await keep_asking(self, self.desk)

    async def poll(self) -> bool:
        """One batch of what is new, then a look at the overlap, then a bite of the sweep if it is time."""
        position = await self.desk.position()
        self.desk.findings[:] = self._sweep.findings(position)
        batch = await self._reader.newer(position)
        if batch.last is not None:
            await self.desk.receive(batch.messages, position=position, onward=self._reader.onward(batch.last))
            position = await self.desk.position()
        await self._look_again(position)
        if not batch.is_whole or batch.rows == self._chosen.batch:
            return True
        await self._sweep.bite()
        return False

    async def rest(self, seconds: float) -> None:
        """Not all workers at the same moment; shorter while a sweep is under way."""
        await asyncio.sleep(min(seconds, self._sweep.rest) * random.uniform(0.8, 1.2))  # noqa: S311  no secret

    async def tell(self, fates: Sequence[Fate]) -> None:
        async with self._marking.open() as (connection, queries):
            await connection.run(queries.marks(fates))

    async def close(self) -> None:
        await self._reading.close()
        await self._marking.close()

    async def _look_again(self, position: Position) -> None:
        """Compare the keys of the overlap, and of all that came since the last look, with the inbox.

        In a tenth of the time, at most: an overlap of minutes may have a million rows.
        """
        upto = self._reader.key_of(position)
        began = time.monotonic()
        if upto is None or began < self._look_from:
            return
        low, after, is_last = self._looked or upto, None, False
        while not is_last:
            keys, is_last = await self._reader.overlap(low, upto, after)
            position = await self._reader.bring([key.id for key in keys], position)
            after = keys[-1] if keys else None
        self._looked = upto
        ended = time.monotonic()
        self._look_from = ended + PAUSES * (ended - began)
