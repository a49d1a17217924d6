"""The queue: enqueues jobs, finds them, cancels them, pauses and resumes queues, kinds and fairness keys.

An enqueue is part of the caller's transaction when there is one (`tx=`): the job and what it is about commit together.
Otherwise enqueues of many coroutines are committed together (`Enqueuer`).
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg
from asyncpg import Record

from penstock.database import Database, Session, SqlConnection, statements
from penstock.engine.claim import LaneKey, Lanes, wake_queues
from penstock.engine.job import JobId
from penstock.engine.kinds import Call, check_fairness_key
from penstock.errors import BadJob, ConnectionLost, NotFound, PenstockError
from penstock.text import did_you_mean, listed

sql = statements(__file__)

BATCH = 5000
PRIORITIES = range(-100, 101)
LONGEST = timedelta(days=36_500)
JSON_COLUMNS = frozenset({"args", "result", "progress", "error", "attempts"})


@dataclass(frozen=True, slots=True)
class Order:
    """A call with its options: fairness key, priority, delay, unique key."""

    call: Call
    fairness_key: str = "default"
    priority: int = 0
    delay: timedelta | None = None
    unique: str | None = None
    unique_for: timedelta | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.call, Call):
            raise BadJob(f"{self.call!r} is not a job: call the decorated function, as in enqueue(greet(name='Ada')).")
        check_fairness_key(self.fairness_key)
        if self.priority not in PRIORITIES:  # 1.5 and "1" are not
            raise BadJob(f"Invalid priority {self.priority}: use an integer from -100 (first) to 100 (last).")
        if self.unique_for is not None and self.unique is None:
            raise BadJob("unique_for needs unique: name the key that stays taken.")
        if self.unique is not None and not _is_key(self.unique):
            raise BadJob("unique must be a text of 1 to 500 bytes, without NUL.")
        for span in (self.delay, self.unique_for):
            if span is not None and span > LONGEST:
                raise BadJob(f"{span} is too long: use at most {LONGEST.days:,} days.")

    @property
    def lane(self) -> LaneKey:
        return self.call.kind.queue, self.call.kind.name, self.fairness_key


def _is_key(text: object) -> bool:
    try:
        return isinstance(text, str) and 0 < len(text.encode()) <= 500 and "\0" not in text
    except UnicodeEncodeError:  # half of a character
        return False


async def enqueue_orders(tx: Session, ids: Mapping[LaneKey, int], orders: Sequence[Order]) -> list[JobId]:
    """Insert in the caller's transaction; the ids in the order of the calls."""
    plain = [order for order in orders if order.unique is None]
    ids_in_order = iter(
        await insert_jobs(
            tx,
            lanes=[ids[order.lane] for order in plain],
            priorities=[order.priority for order in plain],
            args=[order.call.args for order in plain],
            delays=[order.delay for order in plain],
            queues={order.call.kind.queue for order in plain if order.delay is None},
        )
    )
    keyed = await _enqueue_keyed(tx, ids, [order for order in orders if order.unique is not None])
    found: list[JobId] = []
    for order in orders:
        if order.unique is None:
            found.append(next(ids_in_order))
        else:
            found.append(keyed[order.unique])
            keyed[order.unique] = JobId.existing(keyed[order.unique])  # for later calls of this batch with the same key
    return found


async def insert_jobs(
    tx: Session,
    *,
    lanes: list[int],
    priorities: list[int],
    args: list[str],
    delays: list[timedelta | None],
    queues: set[str],
) -> list[JobId]:
    """Insert jobs without keys, in batches that fit a message, and wake the workers of these queues."""
    job_ids: list[JobId] = []
    for start in range(0, len(lanes), BATCH):
        part = slice(start, start + BATCH)
        rows = await sql.insert_jobs(
            tx,
            lanes=lanes[part],
            priorities=priorities[part],
            args=args[part],
            delays=delays[part],
            queues=sorted(queues) if part.stop >= len(lanes) else [],
        )
        job_ids += [JobId(row[0]) for row in rows]
    return job_ids


async def _enqueue_keyed(tx: Session, ids: Mapping[LaneKey, int], orders: list[Order]) -> dict[str, JobId]:
    """One job per key, now and among the unfinished; for a taken key, the id of the job that has it."""
    wanted: dict[str, Order] = {}
    for order in orders:
        wanted.setdefault(str(order.unique), order)
    found: dict[str, JobId] = {}
    while missing := [key for key in wanted if key not in found]:
        reserved = await reserve_ids(tx, len(missing))
        by_key = dict(zip(missing, reserved, strict=True))
        ours = {row["key"] for row in await sql.take_keys(tx, keys=list(by_key), ids=list(by_key.values()))}
        new = [(by_key[key], wanted[key]) for key in missing if key in ours]
        if new:
            await sql.insert_keyed_jobs.run(
                tx,
                ids=[job_id for job_id, _ in new],
                lanes=[ids[order.lane] for _, order in new],
                priorities=[order.priority for _, order in new],
                args=[order.call.args for _, order in new],
                delays=[order.delay for _, order in new],
                keys=[order.unique for _, order in new],
                keeps=[order.unique_for for _, order in new],
            )
            await wake_queues(tx, {order.call.kind.queue for _, order in new if order.delay is None})
            found |= {str(order.unique): JobId(job_id) for job_id, order in new}
        taken = [key for key in missing if key not in found]
        # A holder that was there a moment ago may be over by now: then the key is free, and we try again.
        for key, holder in (await holders_of(tx, taken)).items():
            found[key] = JobId.existing(holder)
    return found


async def reserve_ids(tx: Session, count: int) -> list[int]:
    """Ids for jobs that other rows name before the jobs are inserted."""
    return [row[0] for row in await sql.reserve_ids(tx, count=count)]


async def insert_reserved(tx: Session, lane: int, args: Mapping[int, str], keys: Sequence[str] = ()) -> None:
    """Insert ready jobs of one lane by their reserved ids, with keys if they have any; the caller wakes the workers."""
    nothing: list[None] = [None] * len(args)
    await sql.insert_keyed_jobs.run(
        tx,
        ids=list(args),
        lanes=[lane] * len(args),
        priorities=[0] * len(args),
        args=list(args.values()),
        delays=nothing,
        keys=list(keys) or nothing,
        keeps=nothing,
    )


async def insert_alone(tx: Session, lane: int, key: str) -> bool:
    """Insert a ready job without arguments under a unique key; False if the key is taken."""
    [job_id] = await reserve_ids(tx, 1)
    if not await sql.take_keys(tx, keys=[key], ids=[job_id]):
        return False
    await insert_reserved(tx, lane, {job_id: "{}"}, [key])
    return True


async def holders_of(session: SqlConnection, keys: Sequence[str]) -> dict[str, int]:
    return {row["key"]: row["job_id"] for row in await sql.holders_of(session, keys=list(keys))}


async def await_job(session: SqlConnection, job_id: int) -> None:
    """Have a notification sent when the job is over."""
    await sql.await_job.run(session, id=job_id)


async def cancel_idle(tx: Session, ids: Sequence[int], reason: str) -> list[Record]:
    """Cancel those of these jobs that do not run: id and former state of each."""
    return await sql.cancel_idle(tx, ids=list(ids), outcome="cancelled", reason=reason)


async def cancel_running(tx: Session, ids: Sequence[int]) -> list[int]:
    """Request their workers to stop those of these jobs that run; the ids of these."""
    return [row["id"] for row in await sql.cancel_running(tx, ids=list(ids))]


async def pause(session: SqlConnection, what: str, name: str, reason: str, *, declared: Collection[str] = ()) -> None:
    """Let nothing of a queue, kind or fairness key be claimed; again changes the reason. An unknown name is refused."""
    if name not in declared and not await sql.is_known.value(session, what=what, name=name):
        names = {row["name"] for row in await sql.known_names(session, what=what)}
        raise NotFound(_unknown(what, name, sorted(names.union(declared))))
    await sql.pause.run(session, what=what, name=name, reason=reason)


def _unknown(what: str, name: str, known: list[str]) -> str:
    if what == "fairness_key":
        near = did_you_mean(name, known) or "Check its spelling."
        return f"Fairness key {name} has never had a job or a schedule. {near}"
    near = did_you_mean(name, known) or (f"Known: {listed(known, 10)}." if known else "No worker has declared any yet.")
    return f"{what.capitalize()} {name} does not exist. {near}"


async def resume(tx: Session, what: str, name: str) -> bool:
    """End a pause and wake the workers of its queues; False if there was none."""
    since = await sql.resume.value(tx, what=what, name=name)
    await wake_queues(tx, await queues_of(tx, what, name))
    return since is not None


async def queues_of(session: SqlConnection, what: str, name: str) -> list[str]:
    """The queues in which a queue, kind or fairness key has ever had jobs."""
    return [row["queue"] for row in await sql.queues_of(session, what=what, name=name)]


async def pauses(session: SqlConnection) -> list[Record]:
    """All pauses: what, name, reason, since; the oldest first."""
    return await sql.pauses(session)


async def weigh(session: SqlConnection, fairness_key: str, weight: int) -> None:
    await sql.weigh.run(session, name=check_fairness_key(fairness_key), weight=weight)


class Enqueuer:
    """Group commit of enqueues: calls that arrive while one commit is under way go into the next."""

    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._database = database
        self._lanes = lanes
        self._waiting: list[tuple[Order, asyncio.Future[JobId]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def enqueue(self, order: Order) -> JobId:
        future: asyncio.Future[JobId] = asyncio.get_running_loop().create_future()
        self._waiting.append((order, future))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush(), name="enqueue")
        return await future

    async def _flush(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            await self._insert(batch)

    async def _insert(self, batch: list[tuple[Order, asyncio.Future[JobId]]]) -> None:
        """Give each caller the id of its job, or the error."""
        try:
            orders = [order for order, _ in batch]
            ids = await self._lanes.ids(self._database, (order.lane for order in orders))
            alone = all(order.unique is None for order in orders)  # then it is one statement, and needs no more
            async with self._database.pool.session() if alone else self._database.pool.transaction() as tx:
                job_ids = await enqueue_orders(tx, ids, orders)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TypeError) as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:  # a bad call must not fail the others
                for one in batch:
                    await self._insert([one])
        except PenstockError as error:
            _fail(batch, error)
        except asyncio.CancelledError:
            _fail(batch, ConnectionLost("Interrupted; whether the job was kept is unknown."))
            raise
        else:
            for (_, future), job_id in zip(batch, job_ids, strict=True):
                if not future.done():
                    future.set_result(job_id)


def _fail(batch: list[tuple[Order, asyncio.Future[JobId]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)


async def find_job(session: SqlConnection, job_id: int) -> dict[str, Any] | None:
    """A job that is alive or in the history."""
    row = await sql.find_job.first(session, id=job_id)
    return None if row is None else decode_job(row)


def decode_job(row: asyncpg.Record) -> dict[str, Any]:
    """A row of a job with its JSON as values."""
    return {
        name: json.loads(value) if name in JSON_COLUMNS and value is not None else value for name, value in row.items()
    }
