"""`Penstock`: an application, which declares jobs, enqueues them, and works on them.

app = Penstock()

@app.job(timeout="5m", retries=3)
async def greet(ctx, name: str): ...

async with app:
    await app.enqueue(greet(name="Ada"))
    await app.work(concurrency=100)
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, overload

from penstock.database import Database, Session, open_database
from penstock.engine.admission import Admission
from penstock.engine.children import cancel_trees
from penstock.engine.claim import LaneKey, Lanes
from penstock.engine.inspect.dead_letters import RedriveResult, Selection, discard, redrive
from penstock.engine.inspect.explain import Explanation, explain_job
from penstock.engine.job import JobId
from penstock.engine.kinds import Call, Handler, Kind, Kinds, P, R, Scope, check_fairness_key, check_name
from penstock.engine.limits.declare import Limit, Limits
from penstock.engine.queue import (
    Enqueuer,
    Order,
    await_job,
    enqueue_orders,
    find_job,
    insert_jobs,
    pause,
    resume,
    weigh,
)
from penstock.engine.running import by_queue
from penstock.engine.schedules import Schedule, Schedules, add_schedule, remove_schedule
from penstock.engine.trace_context import stamp_args, stamp_call
from penstock.engine.version import code_version, note_code
from penstock.engine.worker import Declarations, Worker
from penstock.errors import BadJob, JobCancelled, JobDead, JobNotFound
from penstock.settings import Settings, check_arguments, format_duration, load_settings, parse_duration

Duration = str | float | timedelta


class Penstock:
    """An application: its kinds of jobs, and its connection to the database while it is open."""

    def __init__(self, *, role: str = "app", **settings: Any) -> None:
        check_arguments(settings)
        self._overrides = settings
        self.role = role
        self._settings: Settings | None = None
        self._database: Database | None = None
        self._enqueuer: Enqueuer | None = None
        self._open = AsyncExitStack()
        self._lanes = Lanes()
        self._admission = Admission(self._lanes)
        self.kinds = Kinds()
        self.schedules = Schedules()
        self.limits = Limits()

    # -- declaring ------------------------------------------------------------------------------------------------

    def job(  # noqa: PLR0913  all of them are options, given by name
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        timeout: Duration | None = None,
        stall_after: Duration | None = None,
        retries: int = 3,
        scope: Scope | None = None,
        max_queue_size: int | None = None,
        uses: Mapping[str, int] | None = None,
    ) -> Callable[[Handler[P, R]], Kind[P, R]]:
        """Declare a handler; calling the result describes a job and runs nothing."""

        def declare(handler: Handler[P, R]) -> Kind[P, R]:
            kind = self.kinds.declare(
                Kind(
                    name or handler.__name__,
                    handler,
                    queue,
                    _duration("timeout", timeout),
                    _duration("stall_after", stall_after),
                    retries,
                    scope,
                    max_queue_size,
                    dict(uses or {}),
                )
            )
            note_code(handler)
            return kind

        return declare

    def queue(self, name: str, *, max_queue_size: int) -> None:
        """Declare how many jobs may wait in a queue before `enqueue` refuses more."""
        self._admission.declare(name, max_queue_size)

    def schedule(
        self,
        name: str,
        cron_or_interval: str | timedelta,
        call: Call,
        *,
        timezone: str = "UTC",
        fairness_key: str = "_system",
        missed: str = "one",
        overlap: str = "allow",
    ) -> None:
        """Declare a job for each tick of a rule; the workers of this application keep the schedule."""
        self.schedules.declare(
            Schedule.of(
                name,
                cron_or_interval,
                call,
                timezone=timezone,
                fairness_key=fairness_key,
                missed=missed,
                overlap=overlap,
            )
        )

    def limit(self, name: str, permits: int, *, rest: Duration = "30s", breaker_after: int = 5) -> None:
        """Declare how many calls to a dependency the whole fleet may have under way at once, and when its breaker opens."""
        first = _duration("rest", rest) or Limit.rest
        self.limits.declare(Limit(name, permits, first, breaker_after))

    # -- opening --------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load_settings(**self._overrides).settings
        return self._settings

    @property
    def database(self) -> Database:
        if self._database is None:
            raise RuntimeError("Penstock is not open: use it inside `async with app:`.")
        return self._database

    @property
    def dsn(self) -> str:
        """The address of the database, with its password."""
        return self.database.url.reveal()

    async def __aenter__(self) -> Self:
        self.limits.check(self.kinds)
        self._database = await self._open.enter_async_context(open_database(self.settings, role=self.role))
        self._enqueuer = Enqueuer(self._database, self._lanes)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database = self._enqueuer = None
        await self._open.aclose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """One short transaction on a connection of the pool; give it to `enqueue(tx=…)`."""
        async with self.database.pool.transaction() as tx:
            yield tx

    # -- enqueuing ------------------------------------------------------------------------------------------------

    async def enqueue(
        self,
        call: Call[R],
        *,
        unique: str | None = None,
        unique_for: Duration | None = None,
        run_in: Duration | None = None,
        priority: int = 0,
        fairness_key: str = "default",
        tx: Any = None,
    ) -> JobId[R]:
        """Enqueue a job; with `tx`, in that transaction. A taken `unique` gives the job that has it, `created=False`."""
        delay = _duration("run_in", run_in)
        order = Order(stamp_call(call), fairness_key, priority, delay, unique, _duration("unique_for", unique_for))
        if self._admission.bounds(order.call.kind) and not self._admission.admit_one(order.call.kind, fairness_key):
            await self._admission.admit(self.database, [(call.kind, 1)], fairness_key, tx=tx, unique=unique)
        if tx is not None:
            ids = await self._lanes.ids(self.database, [order.lane])
            [job_id] = await enqueue_orders(tx, ids, [order])
            return job_id
        if self._enqueuer is None:
            raise RuntimeError("Penstock is not open: use it inside `async with app:`.")
        return await self._enqueuer.enqueue(order)

    async def enqueue_many(
        self,
        calls: Iterable[Call[R]],
        *,
        priority: int = 0,
        fairness_key: str = "default",
        run_in: Duration | None = None,
        tx: Any = None,
    ) -> list[JobId[R]]:
        """Enqueue many jobs: all of them or, if one cannot be kept, none."""
        several = list(calls)
        if not several:
            return []
        delay = Order(
            several[0], fairness_key, priority, _duration("run_in", run_in)
        ).delay  # checks what all have in common
        if not all(isinstance(call, Call) for call in several):
            raise BadJob("enqueue_many takes calls of decorated functions, as in [greet(name='Ada')].")
        kinds = {call.kind.name: call.kind for call in several}
        ids = await self._lanes.ids(self.database, ((kind.queue, kind.name, fairness_key) for kind in kinds.values()))
        lanes = {name: ids[kind.queue, name, fairness_key] for name, kind in kinds.items()}
        if any(self._admission.bounds(kind) for kind in kinds.values()):
            counts = Counter(call.kind.name for call in several)
            wanted = [(kinds[name], count) for name, count in counts.items()]
            await self._admission.admit(self.database, wanted, fairness_key, tx=tx)

        async def insert(session: Any) -> list[JobId[R]]:
            return await insert_jobs(
                session,
                lanes=[lanes[call.kind.name] for call in several],
                priorities=[priority] * len(several),
                args=stamp_args(call.args for call in several),
                delays=[delay] * len(several),
                queues={kind.queue for kind in kinds.values()} if delay is None else set(),
            )

        if tx is not None:
            return await insert(tx)
        async with self.database.pool.transaction() as own:
            return await insert(own)

    async def lanes(self, wanted: Iterable[LaneKey]) -> Mapping[LaneKey, int]:
        """The ids of lanes, for callers that insert jobs in a statement of their own; new lanes are added."""
        return await self._lanes.ids(self.database, wanted)

    async def add_schedule(
        self,
        name: str,
        cron_or_interval: str | timedelta,
        call: Call,
        *,
        timezone: str = "UTC",
        fairness_key: str = "_system",
        missed: str = "one",
        overlap: str = "allow",
    ) -> None:
        """Add a schedule, or change it; it stays until it is removed, whatever any code declares."""
        schedule = Schedule.of(
            name, cron_or_interval, call, timezone=timezone, fairness_key=fairness_key, missed=missed, overlap=overlap
        )
        await add_schedule(self.database, self._lanes, schedule)

    async def remove_schedule(self, name: str, *, fairness_key: str = "_system") -> bool:
        """Remove a schedule that was added, or that is retired; False if there is none."""
        return await self.database.pool.repeat(remove_schedule, name, fairness_key)

    # -- waiting and changing ---------------------------------------------------------------------------------------

    @overload
    async def result(self, job_id: JobId[R], *, timeout: Duration | None = None) -> R: ...

    @overload
    async def result(self, job_id: int, *, timeout: Duration | None = None) -> Any: ...

    async def result(self, job_id: int, *, timeout: Duration | None = None) -> Any:
        """Wait for the handler's result, as JSON kept it: a tuple comes as a list.

        Raises JobDead, JobCancelled, JobNotFound, or TimeoutError; woken by notification.
        """
        done = self.database.notifications.subscribe("penstock_done")
        seconds = None if timeout is None else parse_duration(timeout).total_seconds()
        try:
            async with asyncio.timeout(seconds):
                await self.database.pool.repeat(await_job, job_id)
                while True:
                    found, value = await self._find_result(job_id)
                    if found:
                        return value
                    await done.wait(1.0 if self.database.notifications.arriving else 0.1)
        finally:
            done.close()

    async def _find_result(self, job_id: int) -> tuple[bool, Any]:
        job = await self.database.pool.repeat(find_job, job_id)
        if job is None:
            kept = format_duration(self.settings.engine.history_kept)
            raise JobNotFound(f"Job {job_id} does not exist, or it ended more than {kept} ago (engine.history_kept).")
        match job["state"]:
            case "done":
                return True, job["result"]
            case "dead":
                raise JobDead(f"Job {job_id} is dead: {job['error']['message']}")
            case "cancelled" | "discarded":
                raise JobCancelled(f"Job {job_id} was {job['state']}.")
        return False, None

    async def cancel(self, *job_ids: int, reason: str = "cancelled") -> list[int]:
        """Cancel jobs; a running one stops with the next heartbeat of its worker. The ids of those that were alive."""
        async with self.database.pool.transaction() as tx:
            return await cancel_trees(tx, job_ids, reason)

    async def why(self, job_id: int) -> Explanation:
        """Explain why a job is where it is: one sentence and the evidence."""
        return await self.database.pool.repeat(lambda session: explain_job(session, job_id))

    async def redrive(
        self, *job_ids: int, fingerprint: str | None = None, kind: str | None = None, force: bool = False
    ) -> RedriveResult:
        """Retry dead jobs: 1, then 10, then all; it stops when the same failure returns."""
        return await redrive(self.database, Selection(job_ids, fingerprint, kind), force=force)

    async def discard(
        self, *job_ids: int, reason: str, fingerprint: str | None = None, kind: str | None = None
    ) -> list[int]:
        """Discard dead jobs; the ids of those that were dead."""
        return await discard(self.database, Selection(job_ids, fingerprint, kind), reason)

    async def pause(
        self, *, queue: str = "", kind: str = "", fairness_key: str = "", reason: str = "paused by hand"
    ) -> None:
        """Claim nothing of this queue, kind or fairness key until `resume`; what runs goes on. An unknown name is refused."""
        what, name = _one_of(queue=queue, kind=kind, fairness_key=fairness_key)
        declared = {"queue": {each.queue for each in self.kinds.values()}, "kind": set(self.kinds)}.get(what, set())
        await self.database.pool.repeat(lambda session: pause(session, what, name, reason, declared=declared))

    async def resume(self, *, queue: str = "", kind: str = "", fairness_key: str = "") -> bool:
        """End a pause; False if there was none."""
        what, name = _one_of(queue=queue, kind=kind, fairness_key=fairness_key)
        async with self.database.pool.transaction() as tx:
            return await resume(tx, what, name)

    async def weigh(self, fairness_key: str, weight: int) -> None:
        """Give a fairness key this many jobs in a round where the others get one."""
        if not 1 <= weight <= 100:
            raise BadJob(f"Invalid weight {weight}: use an integer from 1 to 100.")
        await self.database.pool.repeat(lambda session: weigh(session, fairness_key, weight))

    # -- working --------------------------------------------------------------------------------------------------

    async def work(
        self,
        *,
        concurrency: int | Mapping[str, int] = 100,
        stop: asyncio.Event | None = None,
        lease: Duration = "15s",
        drain: Duration = "20s",
    ) -> None:
        """Run jobs of the declared kinds until `stop` is set or the task is cancelled; then finish or requeue them."""
        worker = self.worker(concurrency=concurrency, lease=lease, drain=drain)
        stopping = stop or asyncio.Event()
        working = asyncio.create_task(worker.run(stopping), name="worker")
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            worker.hurry()
            stopping.set()
            await working

    def worker(
        self, *, concurrency: int | Mapping[str, int] = 100, lease: Duration = "15s", drain: Duration = "20s"
    ) -> Worker:
        """A worker for the declared kinds, to be run by the caller."""
        self.limits.check(self.kinds)
        slots = by_queue(self.kinds, concurrency)
        if not slots:
            raise BadJob("No job is declared for these queues: declare one with @app.job, or correct the names.")
        return Worker(
            self.database,
            Declarations(self.kinds, self.schedules, self.limits),
            self._lanes,
            slots,
            lease=parse_duration(lease),
            drain=parse_duration(drain),
            code=code_version(self.settings),
        )


def _duration(name: str, value: Duration | None) -> timedelta | None:
    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise BadJob(f"{name}: {error}") from None


def _one_of(**names: str) -> tuple[str, str]:
    given = [(what, name) for what, name in names.items() if name]
    if len(given) != 1:
        raise BadJob("Name exactly one: a queue, a kind or a fairness key.")
    [(what, name)] = given
    return what, check_fairness_key(name) if what == "fairness_key" else check_name(what, name)
