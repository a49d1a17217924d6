"""Refusing what would wait too long: a lane or a queue may have a depth, and an enqueue beyond it raises `QueueFull`.

A look counts the jobs that wait, never past the depth, and is good for a moment; in between, what this process puts in is
added to it. So the bound is soft by what other processes put in within that moment, and an enqueue costs nothing that
could be measured. Only `enqueue` and `enqueue_many` are refused: children of a fan-out and ticks of schedules belong to
something that was let in. The SQL is in admission.sql.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any

from penstock.database import Database, statements
from penstock.database.statements import Runs
from penstock.engine.kinds import Kind, check_name, is_count
from penstock.engine.lanes import Lanes
from penstock.engine.queue import sql as queue_sql
from penstock.engine.wording import span
from penstock.errors import BadJob, QueueFull

sql = statements(__file__)

FRESH = 0.25  # seconds for which a look is good
COST = 20  # or this many times as long as the look took, whichever is longer
SHORTEST, LONGEST = 1.0, 60.0  # seconds until the next try
UNSEEN = 5.0  # when nothing was seen going; or for as long as nothing has gone


@dataclass(frozen=True, slots=True)
class Place:
    """What has a depth: a lane, or a whole queue when kind and share are empty."""

    depth: int
    queue: str
    kind: str = ""
    share: str = ""

    def __str__(self) -> str:
        return f"lane {self.kind} of {self.share} in the queue {self.queue}" if self.kind else f"queue {self.queue}"


@dataclass(slots=True)
class Look:
    """What was counted, and what this process has put in since."""

    count: int = 0
    added: int = 0
    rate: float = 0.0  # jobs per second that went, as far as it was seen
    at: float = -inf
    moved_at: float = -inf  # when something was last seen to have gone
    good_until: float = -inf
    under_way: asyncio.Event | None = None  # set when the look that is under way is over

    @property
    def waiting(self) -> int:
        return self.count + self.added

    def note(self, count: int, added: int, began: float, depth: int) -> None:
        """A look is back: it has seen what had been `added` when it began."""
        gone = self.count + added - count
        if self.at == -inf:
            self.moved_at = began
        elif gone > 0 and self.count + added <= depth:  # beyond the depth nothing was counted
            rate = gone / max(began - self.at, 0.001)
            self.rate = (self.rate + rate) / 2 if self.rate else rate
            self.moved_at = began
        self.count = count
        self.added -= added
        self.at = began
        now = time.monotonic()
        self.good_until = now + max(FRESH, COST * (now - began))

    def retry_after(self, excess: int) -> timedelta:
        """When so many will have gone, at the rate that was seen."""
        seconds = excess / self.rate if self.rate else max(UNSEEN, self.at - self.moved_at)
        return timedelta(seconds=round(min(max(seconds, SHORTEST), LONGEST), 1))


class Admission:
    """The depths that one application has declared, and its looks."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._depths: dict[str, int] = {}
        self._looks: dict[Place, Look] = {}
        self._at_once: dict[tuple[str, str, int | None, str], list[tuple[int, Look]]] = {}

    def declare(self, queue: str, depth: int) -> None:
        check_name("queue", queue)
        self._depths[queue] = check_depth(f"the queue {queue}", depth)
        self._at_once.clear()

    def bounds(self, kind: Kind) -> bool:
        return kind.depth is not None or kind.queue in self._depths

    def admit_one(self, kind: Kind, share: str) -> bool:
        """Let one in when the looks are fresh and show room; otherwise ask `admit`. This is the way of nearly all."""
        key = kind.queue, kind.name, kind.depth, share
        places = self._at_once.get(key)
        if places is None:
            places = [
                (place.depth, self._looks.setdefault(place, Look())) for place in self._places([(kind, 1)], share)
            ]
            self._at_once[key] = places
        now = time.monotonic()
        for depth, look in places:
            if now >= look.good_until or look.waiting >= depth:
                return False
        for _, look in places:
            look.added += 1
        return True

    async def admit(
        self,
        database: Database,
        wanted: Iterable[tuple[Kind, int]],
        share: str,
        *,
        tx: Any = None,
        unique: str | None = None,
    ) -> None:
        """Let so many jobs of these kinds in, or raise `QueueFull`; a taken key adds nothing, and is let in."""
        looks: list[tuple[Look, int]] = []
        for place, number in self._places(wanted, share).items():
            if number > place.depth:
                raise BadJob(
                    f"{number:,} jobs never fit into the {place}, whose depth is {place.depth:,}: put in fewer."
                )
            look = await self._look(database, place, tx)
            if look.waiting + number > place.depth:
                if unique is not None and await _is_taken(database, unique, tx):
                    return
                raise _full(place, look, number)
            looks.append((look, number))
        for look, number in looks:
            look.added += number

    def _places(self, wanted: Iterable[tuple[Kind, int]], share: str) -> dict[Place, int]:
        """How many want into each place that has a depth."""
        numbers: dict[Place, int] = {}
        for kind, number in wanted:
            places = [] if kind.depth is None else [Place(kind.depth, kind.queue, kind.name, share)]
            if (depth := self._depths.get(kind.queue)) is not None:
                places.append(Place(depth, kind.queue))
            for place in places:
                numbers[place] = numbers.get(place, 0) + number
        return numbers

    async def _look(self, database: Database, place: Place, tx: Any) -> Look:
        """A fresh look, or the last one while another coroutine looks.

        Only the very first is waited for, and not in a transaction: the looker might need the connection that it holds.
        """
        look = self._looks.setdefault(place, Look())
        while look.at == -inf and look.under_way is not None and tx is None:
            await look.under_way.wait()
        began = time.monotonic()
        if began >= look.good_until and (look.under_way is None or look.at == -inf):
            mine = look.under_way = asyncio.Event()
            added = look.added
            try:
                count = await self._count(database, place, tx)
                if look.at <= began:  # otherwise somebody was faster
                    look.note(count, min(added, look.added), began, place.depth)
            finally:
                mine.set()
                look.under_way = None
        return look

    async def _count(self, database: Database, place: Place, tx: Any) -> int:
        async def count(session: Runs) -> int:
            if not place.kind:
                number: int = await sql.count_queue.value(session, queue=place.queue, most=place.depth)
            else:
                number = await sql.count_lane.value(session, lane=lane, most=place.depth)
            return number

        key = place.queue, place.kind, place.share
        lane = (await self._lanes.ids(database, [key]))[key] if place.kind else 0
        return await count(tx) if tx is not None else await database.pool.repeat(count)


async def _is_taken(database: Database, key: str, tx: Any) -> bool:
    async def look(session: Runs) -> bool:
        return bool(await queue_sql.holders_of(session, keys=[key]))

    return await look(tx) if tx is not None else await database.pool.repeat(look)


def _full(place: Place, look: Look, number: int) -> QueueFull:
    after = look.retry_after(look.waiting + number - place.depth)
    at_least = "at least " if look.count >= place.depth else ""
    return QueueFull(
        f"The {place} is full: {at_least}{look.waiting:,} jobs wait in it, and its depth is {place.depth:,}. "
        f"Try again in {span(after)}.",
        retry_after=after,
    )


def check_depth(what: str, depth: object) -> int:
    if not is_count(depth):
        raise BadJob(f"The depth of {what} is {depth!r}: use a whole number from 1 on.")
    return int(str(depth))
