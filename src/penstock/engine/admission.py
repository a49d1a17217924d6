"""Back-pressure: a lane or a queue may have a maximum size (`max_queue_size`); an enqueue beyond it raises `QueueFull`.

The jobs that wait are counted, never past the maximum, and a count is valid for a moment; in between, what this process
enqueues is added to it. So other processes can exceed the bound by what they enqueue within that moment, and an enqueue costs
nothing measurable. Only `enqueue` and `enqueue_many` are refused: children of a fan-out and ticks of schedules belong to
something that was admitted.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

from penstock.database import Database, statements
from penstock.engine.claim import Lanes
from penstock.engine.kinds import Kind, check_name, is_count
from penstock.engine.queue import holders_of
from penstock.errors import BadJob, QueueFull
from penstock.text import span

sql = statements(__file__)

FRESH = 0.25  # seconds for which a count is valid
COST = 20  # or this many times as long as the counting took, whichever is longer
SHORTEST, LONGEST = 1.0, 60.0  # seconds until the next try
UNSEEN = 5.0  # when no job was seen to leave; or for as long as none has left


@dataclass(frozen=True, slots=True)
class Bound:
    """A maximum size: of a lane, or of a whole queue when kind and fairness key are empty."""

    max_queue_size: int
    queue: str
    kind: str = ""
    fairness_key: str = ""

    def __str__(self) -> str:
        return (
            f"lane {self.kind} of {self.fairness_key} in the queue {self.queue}" if self.kind else f"queue {self.queue}"
        )


@dataclass(slots=True)
class WaitingCount:
    """The jobs that were counted, and those that this process has enqueued since."""

    count: int = 0
    added: int = 0
    rate: float = 0.0  # jobs per second that left, as far as it was seen
    at: float = -inf
    moved_at: float = -inf  # when a job was last seen to have left
    good_until: float = -inf
    under_way: asyncio.Event | None = None  # set when the counting that is under way is over

    @property
    def waiting(self) -> int:
        return self.count + self.added

    def note(self, count: int, added: int, began: float, max_queue_size: int) -> None:
        """Take over a new count, which includes what had been `added` when it began."""
        gone = self.count + added - count
        if self.at == -inf:
            self.moved_at = began
        elif gone > 0 and self.count + added <= max_queue_size:  # beyond the max_queue_size nothing was counted
            rate = gone / max(began - self.at, 0.001)
            self.rate = (self.rate + rate) / 2 if self.rate else rate
            self.moved_at = began
        self.count = count
        self.added -= added
        self.at = began
        now = time.monotonic()
        self.good_until = now + max(FRESH, COST * (now - began))

    def retry_after(self, excess: int) -> timedelta:
        """The time until so many jobs have left, at the rate that was seen."""
        seconds = excess / self.rate if self.rate else max(UNSEEN, self.at - self.moved_at)
        return timedelta(seconds=round(min(max(seconds, SHORTEST), LONGEST), 1))


class Admission:
    """The maximum sizes that one application has declared, and its counts."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._max_sizes: dict[str, int] = {}
        self._counts: dict[Bound, WaitingCount] = {}
        self._at_once: dict[tuple[str, str, int | None, str], list[tuple[int, WaitingCount]]] = {}

    def declare(self, queue: str, max_queue_size: int) -> None:
        check_name("queue", queue)
        self._max_sizes[queue] = check_max_queue_size(f"the queue {queue}", max_queue_size)
        self._at_once.clear()

    def bounds(self, kind: Kind) -> bool:
        return kind.max_queue_size is not None or kind.queue in self._max_sizes

    def admit_one(self, kind: Kind, fairness_key: str) -> bool:
        """Admit one job if the counts are fresh and show room; otherwise call `admit`. The path of nearly all enqueues."""
        key = kind.queue, kind.name, kind.max_queue_size, fairness_key
        places = self._at_once.get(key)
        if places is None:
            places = [
                (place.max_queue_size, self._counts.setdefault(place, WaitingCount()))
                for place in self._places([(kind, 1)], fairness_key)
            ]
            self._at_once[key] = places
        now = time.monotonic()
        for max_queue_size, seen in places:
            if now >= seen.good_until or seen.waiting >= max_queue_size:
                return False
        for _, seen in places:
            seen.added += 1
        return True

    async def admit(
        self,
        database: Database,
        wanted: Iterable[tuple[Kind, int]],
        fairness_key: str,
        *,
        tx: Any = None,
        unique: str | None = None,
    ) -> None:
        """Admit so many jobs of these kinds, or raise `QueueFull`; a taken key adds nothing, and is admitted."""
        counts: list[tuple[WaitingCount, int]] = []
        for place, number in self._places(wanted, fairness_key).items():
            if number > place.max_queue_size:
                raise BadJob(
                    f"{number:,} jobs never fit into the {place}, whose maximum size is {place.max_queue_size:,}: "
                    "enqueue fewer."
                )
            seen = await self._fresh_count(database, place, tx)
            if seen.waiting + number > place.max_queue_size:
                if unique is not None and await _is_taken(database, unique, tx):
                    return
                raise _full(place, seen, number)
            counts.append((seen, number))
        for seen, number in counts:
            seen.added += number

    def _places(self, wanted: Iterable[tuple[Kind, int]], fairness_key: str) -> dict[Bound, int]:
        """The number of new jobs for each lane or queue that has a maximum size."""
        numbers: dict[Bound, int] = {}
        for kind, number in wanted:
            places = (
                [] if kind.max_queue_size is None else [Bound(kind.max_queue_size, kind.queue, kind.name, fairness_key)]
            )
            if (max_queue_size := self._max_sizes.get(kind.queue)) is not None:
                places.append(Bound(max_queue_size, kind.queue))
            for place in places:
                numbers[place] = numbers.get(place, 0) + number
        return numbers

    async def _fresh_count(self, database: Database, place: Bound, tx: Any) -> WaitingCount:
        """A fresh count, or the last one while another coroutine counts.

        Only the very first is waited for, and not in a transaction: the counting might need the connection that it holds.
        """
        seen = self._counts.setdefault(place, WaitingCount())
        while seen.at == -inf and seen.under_way is not None and tx is None:
            await seen.under_way.wait()
        began = time.monotonic()
        if began >= seen.good_until and (seen.under_way is None or seen.at == -inf):
            mine = seen.under_way = asyncio.Event()
            added = seen.added
            try:
                count = await self._count(database, place, tx)
                if seen.at <= began:  # otherwise another coroutine was faster
                    seen.note(count, min(added, seen.added), began, place.max_queue_size)
            finally:
                mine.set()
                seen.under_way = None
        return seen

    async def _count(self, database: Database, place: Bound, tx: Any) -> int:
        if place.kind:
            key = place.queue, place.kind, place.fairness_key
            lane = (await self._lanes.ids(database, [key]))[key]
            count = partial(sql.count_lane.value, lane=lane, most=place.max_queue_size)
        else:
            count = partial(sql.count_queue.value, queue=place.queue, most=place.max_queue_size)
        number: int = await count(tx) if tx is not None else await database.pool.repeat(count)
        return number


async def _is_taken(database: Database, key: str, tx: Any) -> bool:
    holders = partial(holders_of, keys=[key])
    return bool(await holders(tx) if tx is not None else await database.pool.repeat(holders))


def _full(place: Bound, seen: WaitingCount, number: int) -> QueueFull:
    after = seen.retry_after(seen.waiting + number - place.max_queue_size)
    at_least = "at least " if seen.count >= place.max_queue_size else ""
    return QueueFull(
        f"The {place} is full: {at_least}{seen.waiting:,} jobs wait in it, and its maximum size is {place.max_queue_size:,}. "
        f"Try again in {span(after)}.",
        retry_after=after,
    )


def check_max_queue_size(what: str, max_queue_size: object) -> int:
    if not is_count(max_queue_size):
        raise BadJob(f"The maximum size of {what} is {max_queue_size!r}: use an integer of at least 1.")
    return int(str(max_queue_size))
