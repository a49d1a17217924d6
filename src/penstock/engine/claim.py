"""The claim: selects the jobs that a worker takes next. Fair between lanes, best priority first, and only through open gates.

A lane is a queue, a kind and a fairness key. `Lanes` caches their ids. `Claimer` reads now and then which lanes have ready jobs
and are open for its worker (`active_lanes`, a skip scan), and divides the free slots of each queue between them; the claim
itself then takes a few rows per lane. The cursor moves on with each claim, so that with more lanes than slots each lane has a
turn. The gates are in gates.sql, which `why` uses, too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import itemgetter

from asyncpg import Record

from penstock.database import Database, Session, SqlConnection, statements
from penstock.engine.failpoint import reach
from penstock.engine.job import Job
from penstock.engine.limits.exchange import Limiters, Reservation
from penstock.engine.trace_context import split_args

sql = statements(__file__)

HOPS = 64  # lanes that one walk reads
RECENT = 8  # lanes that are remembered for the next job after a rest
FRESH = 0.2  # seconds for which the list of active lanes may be used again while all of them yield

LaneKey = tuple[str, str, str]  # queue, kind, fairness key
FindLanes = Callable[[Iterable[LaneKey]], Awaitable[Mapping[LaneKey, int]]]


class Lanes:
    """The ids of lanes, remembered: they never change."""

    def __init__(self) -> None:
        self._ids: dict[LaneKey, int] = {}
        self._wanted: set[LaneKey] = set()  # by callers that wait for their turn to query
        self.keys: dict[int, LaneKey] = {}
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def ids(self, database: Database, wanted: Iterable[LaneKey]) -> Mapping[LaneKey, int]:
        """The ids of these lanes.

        New ones are added on a session of their own and at once: in a caller's long transaction, all others that need the lane
        would wait for its end; and the pool may have no second connection left.
        """
        missing = {key for key in wanted if key not in self._ids}
        if missing:
            self._wanted |= missing
            async with self._one_at_a_time():  # the connection budget counts one such session
                together = (
                    self._wanted | missing
                ) - self._ids.keys()  # with those of callers that came while we waited
                self._wanted = set()
                await self._find(database, sorted(together))
        return self._ids

    async def _find(self, database: Database, missing: list[LaneKey]) -> None:
        if not missing:
            return
        session = await database.direct("lanes")
        try:
            rows = await find_or_add_lanes(session, missing)
        finally:
            session.terminate()
        for row in rows:
            self.learn(row["id"], (row["queue"], row["kind"], row["fairness_key"]))

    def _one_at_a_time(self) -> asyncio.Lock:
        """A lock belongs to a loop, and an application may be opened again in another."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]

    def learn(self, number: int, key: LaneKey) -> None:
        self._ids[key] = number
        self.keys[number] = key


async def find_or_add_lanes(session: Session, wanted: Sequence[LaneKey]) -> list[Record]:
    """The rows of these lanes. Outside of any transaction, new ones are visible to all at once."""
    queues, kinds, fairness_keys = (list(column) for column in zip(*wanted, strict=True))
    rows = await sql.find_lanes(session, queues=queues, kinds=kinds, fairness_keys=fairness_keys)
    if len(rows) < len(wanted):  # read first: an insert that conflicts uses up an id all the same
        await sql.add_lanes.run(session, queues=queues, kinds=kinds, fairness_keys=fairness_keys)
        rows = await sql.find_lanes(session, queues=queues, kinds=kinds, fairness_keys=fairness_keys)
    return rows


async def lane_id(tx: Session, key: LaneKey) -> int:
    """The id of a lane, which is added in the caller's transaction if it is new."""
    [row] = await find_or_add_lanes(tx, [key])
    return int(row["id"])


async def wake_queues(session: SqlConnection, queues: Iterable[str]) -> None:
    """Notify the workers of these queues; the payload is constant, so that many notifications become one."""
    await sql.wake_queues(session, queues=sorted(queues))


async def wake_lanes(session: SqlConnection, lanes: Iterable[int]) -> None:
    """Notify the workers of the queues of these lanes."""
    if numbers := sorted(lanes):
        await sql.wake_lanes(session, lanes=numbers)


@dataclass(slots=True)
class ActiveLane:
    """A lane with ready jobs in one band, open for us.

    `after` is the last job that we took: what lies before it is taken or dead, and walking over it again costs time until
    the next vacuum. A job that comes back with a smaller id is seen when the list is read again.
    """

    priority: int
    lane: int
    queue: str
    weight: int
    after: int = 0


class Claimer:
    """Takes jobs for one worker, on a session of its own.

    So a pool that handlers have exhausted cannot keep a worker from claiming, and two settings can differ here. Plans are
    made once: planning a claim takes as long as running it. And a claim does not wait for the disk: one that a crash of
    the server forgets is a job that is ready again, and the fence refuses the attempt that still works on it.
    """

    def __init__(self, database: Database, lanes: Lanes, worker_id: int, limiters: Limiters | None = None) -> None:
        self._database = database
        self._limiters = limiters if limiters is not None and limiters.gating else None
        self._short: set[str] = set()  # kinds with ready jobs that could not be claimed for lack of permits
        self._lanes = lanes
        self._worker_id = worker_id
        self._own: Session | None = None
        self._cursor = 0
        self._active: list[ActiveLane] = []
        self._active_until = 0.0
        self._turns_left: float = 0  # before the lanes after the list must have theirs
        self._recent: list[ActiveLane] = []  # tried first after a rest
        self._was_idle = False
        self._got = 0  # by the lane at the cursor, in this turn
        self.contended = False  # there was something, but others had it locked for a moment

    async def claim(self, free: Mapping[str, int]) -> list[Job]:
        """Take at most `free[queue]` jobs of each queue; an empty list when there is nothing for us."""
        session = await self._session()
        rows: list[Record] = []
        if time.monotonic() < self._active_until:
            rows = await self._take_permitted(session, self._divide(self._active, free))
        elif self._was_idle:  # woken, most likely by a job of a lane that we know: finding lanes takes as long again
            rows = await self._take_permitted(session, self._divide(self._recent, free))
            self._active_until = 0.0
        if not rows:
            await self._find_active(session)
            rows = await self._take_permitted(session, self._divide(self._active, free))
        if rows:
            reach("after-claim", session)
        self._was_idle = not rows
        self.contended = bool(self._divide(self._active, free)) and not rows
        if self._limiters is not None:
            self._limiters.note_short(self._short)
        now = time.monotonic()
        return [self._job(row, now) for row in rows]

    async def claim_quarantined(self, queues: Iterable[str]) -> Job | None:
        """One job that was running when its worker was lost, if we run no other such job."""
        session = await self._session()
        with Reservation(self._limiters) as reservation:
            closed = reservation.one_of_each()
            row = await sql.claim_quarantined.first(
                session, worker_id=self._worker_id, queues=list(queues), closed_kinds=closed
            )
            if row is None:
                return None
            reach("after-claim", session)
            if row["lane"] not in self._lanes.keys:
                for lane in await sql.lane(session, id=row["lane"]):
                    self._lanes.learn(lane["id"], (lane["queue"], lane["kind"], lane["fairness_key"]))
            job = self._job(row, time.monotonic())
            reservation.keep(job.kind, job.id, job.attempt)
            return job

    async def owned(self) -> set[tuple[int, int]]:
        """The jobs and attempts that are ours according to the table."""
        rows = await sql.owned_jobs(await self._session(), worker_id=self._worker_id)
        return {(row["id"], row["attempt"]) for row in rows}

    async def requeue_unknown(self, unknown: Iterable[int]) -> int:
        """Requeue jobs that are ours in the table but not in memory: the answer to their claim was lost."""
        rows = await sql.requeue_unknown(await self._session(), worker_id=self._worker_id, ids=list(unknown))
        return len(rows)

    def close(self) -> None:
        if self._own is not None:
            self._own.terminate()

    async def _session(self) -> Session:
        if self._own is None or self._own.is_closed():
            self._own = await self._database.direct("claim")
            await self._own.execute("set plan_cache_mode = force_generic_plan; set synchronous_commit = off")
        return self._own

    def _divide(self, active: list[ActiveLane], free: Mapping[str, int]) -> list[tuple[ActiveLane, int]]:
        """Without the lanes that have no permit left: they must not keep others, or a worse band, from their turn."""
        return divide([lane for lane in active if self._has_room(self._lanes.keys[lane.lane][1])], free)

    def _has_room(self, kind: str) -> bool:
        if self._limiters is None or self._limiters.has_room(kind):
            return True
        self._short.add(kind)
        return False

    async def _take_permitted(self, session: Session, picks: list[tuple[ActiveLane, int]]) -> list[Record]:
        """Never more jobs than there are permits for: they are reserved before the claim."""
        if self._limiters is None:
            return await self._take(session, picks)
        kinds = {lane.lane: self._lanes.keys[lane.lane][1] for lane, _ in picks}
        with Reservation(self._limiters) as reservation:
            cut = [(lane, take) for lane, most in picks if (take := reservation.cut(kinds[lane.lane], most))]
            self._short |= reservation.short
            rows = await self._take(session, cut)
            for row in rows:
                reservation.keep(kinds[row["lane"]], row["id"], row["attempt"])
        return rows

    async def _take(self, session: Session, picks: list[tuple[ActiveLane, int]]) -> list[Record]:
        if not picks:
            self._active_until = 0.0
            return []
        rows = await sql.claim_jobs(
            session,
            worker_id=self._worker_id,
            priorities=[active.priority for active, _ in picks],
            lanes=[active.lane for active, _ in picks],
            afters=[active.after for active, _ in picks],
            takes=[take for _, take in picks],
            slots=sum(take for _, take in picks),
        )
        rows.sort(key=itemgetter("priority", "id"))
        self._turns_left -= len(picks)
        if self._turns_left <= 0 or len(rows) < sum(take for _, take in picks):
            self._active_until = 0.0  # others wait for a turn, or some lane has run dry: read the lanes again
        last = {(row["priority"], row["lane"]): row["id"] for row in rows}
        for active, _ in picks:
            active.after = last.get((active.priority, active.lane), active.after)
        had_a_turn = {active.lane for active, _ in picks}
        had_a_turn -= self._move_on(picks[-1][0], sum(row["lane"] == picks[-1][0].lane for row in rows))
        self._active.sort(key=lambda active: (active.priority, active.lane in had_a_turn))
        return rows

    def _move_on(self, last: ActiveLane, got: int) -> set[int]:
        """Put the cursor after the last lane that was served, or before it while it has not got its weight."""
        self._got = got + (self._got if self._cursor == last.lane - 1 else 0)
        if got and self._got < last.weight:
            self._cursor = last.lane - 1
            return {last.lane}
        self._cursor, self._got = last.lane, 0
        return set()

    async def _find_active(self, session: Session) -> None:
        """Walk until an open lane is found or there are no more: closed lanes in front must not hide it."""
        self._active = []
        self._short.clear()
        band, cursor, cut_off = None, self._cursor, True
        while cut_off and not self._active:
            rows = await sql.active_lanes(session, worker_id=self._worker_id, band=band, cursor=cursor, hops=HOPS)
            ahead = [row for row in rows if not row["behind"]]
            cut_off = len(ahead) >= HOPS
            # Lanes that the cursor has passed have had their turn: those farther on come first.
            for row in ahead if cut_off else rows:
                self._lanes.learn(row["lane"], (row["queue"], row["kind"], row["fairness_key"]))
                if row["verdict"] in ("permits", "breaker"):
                    self._short.add(row["kind"])
                elif row["verdict"] == "open" and self._has_room(row["kind"]):
                    self._active.append(ActiveLane(row["priority"], row["lane"], row["queue"], row["weight"]))
            if cut_off:
                band, cursor = max((row["priority"], row["lane"]) for row in ahead)
        self._turns_left = len(self._active) if cut_off else inf
        if self._active:
            self._recent = [replace(active) for active in self._active[:RECENT]]
        self._active_until = time.monotonic() + FRESH

    def _job(self, row: Record, now: float) -> Job:
        queue, kind, fairness_key = self._lanes.keys[row["lane"]]
        args, trace = split_args(row["args"])
        return Job(
            row["id"],
            kind,
            queue,
            fairness_key,
            row["attempt"],
            row["failures"],
            row["quarantined"],
            args,
            row["unique_key"],
            row["unique_for"],
            now,
            row["priority"],
            trace=trace,
        )


def divide(active: list[ActiveLane], free: Mapping[str, int]) -> list[tuple[ActiveLane, int]]:
    """Give each lane its part of its queue's free slots, by weight and in the given order; a full queue gives none.

    The best band of a queue takes all that is free; the next band has its turn when the first has run dry.
    """
    best: dict[str, int] = {}
    for lane in active:
        best.setdefault(lane.queue, lane.priority)
    lanes = [lane for lane in active if lane.priority == best[lane.queue]]
    weights: dict[str, int] = {}
    for lane in lanes:
        weights[lane.queue] = weights.get(lane.queue, 0) + lane.weight
    left = dict(free)
    picks = []
    for lane in lanes:
        slots = free.get(lane.queue, 0)
        take = min(left.get(lane.queue, 0), max(1, -(-slots * lane.weight // weights[lane.queue])))
        if take > 0:
            left[lane.queue] -= take
            picks.append((lane, take))
    return picks
