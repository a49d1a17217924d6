"""The comparison of a whole table with the inbox, in bites: the numbers of some thousand rows, then a rest.

How far it has come is kept beside the position, so that it goes on after a restart, and any worker takes the next bite. Two who
take the same one bring nothing twice. It finds rows whose order is NULL, went backwards, or was committed too late for the
overlap. Rows without a number cannot be messages: they are counted, and told as long as they are there.
"""

import time
from math import inf
from typing import Any

from penstock.documents import Position
from penstock.sources.table.reader import Reader

LEAST_REST = 0.05  # seconds; else as long as the bite took


class Sweep:
    """Of one source, in one process."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._desk = reader.desk
        self.rest = inf  # seconds until the next bite, at most

    def is_due(self, position: Position) -> bool:
        """Whether one is under way, or the last one of the whole fleet is long enough ago."""
        if "after" in _state(position):
            return True
        return position.swept_ago is None or position.swept_ago >= self._desk.chosen.sweep_every

    def findings(self, position: Position) -> list[str]:
        """What the last sweep has found that nobody here can mend."""
        count = _state(position).get("unnumbered", 0)
        if not count:
            return []
        chosen = self._desk.chosen
        return [
            f"{count:,} rows of {chosen.table} have no {chosen.id} and cannot be read: give them one, or leave them out by "
            "a view. The other rows are read."
        ]

    async def bite(self) -> None:
        """Compare the next rows, if it is time."""
        self.rest = inf
        position = await self._desk.position()
        if not self.is_due(position):
            return
        began, state = time.monotonic(), _state(position)
        after = state.get("after")
        seen = await self._reader.count_unnumbered() if after is None else state["seen"]
        ids, is_last = await self._reader.page(after)
        seen += ids.count("")
        await self._reader.bring(ids, position)
        if (await self._desk.position()).sweep != position.sweep:
            self.rest = LEAST_REST
            return  # somebody else has taken this bite, too, and has said so
        if is_last:
            await self._desk.inbox.note_sweep(self._desk.name, {"unnumbered": seen}, complete=True)
            return
        going_on = {"after": ids[-1], "seen": seen, "unnumbered": state.get("unnumbered", 0)}
        await self._desk.inbox.note_sweep(self._desk.name, going_on, complete=False)
        self.rest = max(LEAST_REST, time.monotonic() - began)


def _state(position: Position) -> dict[str, Any]:
    return position.sweep if isinstance(position.sweep, dict) else {}
