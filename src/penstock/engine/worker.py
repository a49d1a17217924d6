"""A worker: claims jobs, runs their handlers, and stops in time. A job passes through these files:

    app.py, kinds.py    `enqueue` checks a call and its options; trace_context.py adds the caller's trace to its arguments
    queue.py            inserts it, ready or later, and notifies the workers of its queue
    worker.py           the main loop: wakes up, counts free slots, claims, hands the jobs to `Handlers`
    claim.py            chooses lanes, fairly and only through open gates (gates.sql), and claims: ready -> running
    running.py          runs the handler in a task of its own and turns its end into an `Outcome` (job.py)
    context.py          the handler's view: progress, steps, children, `finish`
    settle.py           records outcomes by group commit: running -> history, later, dead or ready

Two tasks share the work. `_claim_until_stopped` fills free slots and a small buffer, woken by notifications and by slots that
become free. `_watch` ticks four times a second: timeouts, stalls, the lease. The heartbeat (heartbeat.py) runs in another
thread and does the maintenance of the fleet. No connection is held while a handler runs.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import asyncpg

from penstock.database import Database, PoolState, PoolUse
from penstock.engine.claim import Claimer, Lanes
from penstock.engine.connection_budget import join_fleet
from penstock.engine.context import Runtime
from penstock.engine.fleet import Registration, leave
from penstock.engine.heartbeat import Commands, Heartbeat, Lease
from penstock.engine.job import Job, Requeue, StopReason
from penstock.engine.kinds import Kinds
from penstock.engine.limits.declare import Limits
from penstock.engine.limits.exchange import Limiters
from penstock.engine.maintenance import Maintenance, make_partitions
from penstock.engine.metrics import tally
from penstock.engine.running import END_PATIENCE, Handlers, Slots
from penstock.engine.scheduler import Scheduler
from penstock.engine.schedules import Schedules
from penstock.engine.settle import Settlement, Settler
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log

WATCH_EVERY = 0.25  # seconds
RECONCILE_EVERY = 10.0  # seconds between comparisons of the table with our memory
AFTER_TROUBLE = 0.5  # seconds until the next claim when one has failed
SOON = 0.01  # seconds until the next claim when others had a lock on what we wanted
POLL_IDLE = 5.0  # seconds between polls while notifications arrive
POLL_DEAF = 0.25  # and while they do not
BACKLOG_MAX = 5000  # outcomes waiting to be written until claiming stops
FAREWELL = 3.0  # seconds to write the last outcomes
BUSY, CALM = 0.8, 0.5  # use of the pool above which fewer jobs are claimed, and below which more are again
LEAST = 0.05
TROUBLE = (DatabaseTrouble, DatabaseUnreachable, asyncpg.PostgresError, asyncpg.InterfaceError)  # all of it passes


@dataclass(frozen=True)
class Declarations:
    """The kinds, schedules and limits that an application declares."""

    kinds: Kinds
    schedules: Schedules
    limits: Limits


@dataclass
class BackPressure:
    """The part of the free slots that may be filled, given how busy the connection pool is."""

    level: float = 1.0
    critical: bool = False

    def feel(self, state: PoolState) -> float:
        self.critical = state.used >= state.size and state.waiting > 0
        if self.critical or state.use > BUSY:
            self.level = max(LEAST, self.level / 2)
        elif state.use < CALM:
            self.level = min(1.0, self.level + 0.1)
        return 0.0 if self.critical else self.level


class Worker:
    """One worker of one process."""

    def __init__(
        self,
        database: Database,
        declared: Declarations,
        lanes: Lanes,
        concurrency: Mapping[str, int],
        *,
        lease: timedelta = timedelta(seconds=15),
        drain: timedelta = timedelta(seconds=20),
        code: str = "",
    ) -> None:
        self._database = database
        self._kinds = declared.kinds
        self._lanes = lanes
        self._lease_length = lease
        self._drain = drain
        self._code = code
        self._scheduler = Scheduler(database.settings, declared.schedules)
        self._slots = {queue: Slots(size) for queue, size in concurrency.items()}
        self._wake = asyncio.Event()
        self._pressure = BackPressure()
        pool = database.pool
        self._limiters = Limiters(
            declared.limits, declared.kinds, lambda: pool.state.use, self._wake.set, PoolUse(pool)
        )
        self._handlers = Handlers(declared.kinds, self._slots, self._limiters, self._wake)
        self._gone = asyncio.Event()
        self.worker_id = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`; then finish or requeue what runs, and leave the fleet."""
        while not stop.is_set():
            try:
                await self._work_as_member(stop)
            except TROUBLE as error:  # it was reachable at the start, and will be again
                log.warning("the database cannot be reached", error=str(error))
                await asyncio.sleep(AFTER_TROUBLE)
            if not stop.is_set():
                log.warning("joining the fleet again", worker=self.worker_id)

    def hurry(self) -> None:
        """Do not wait for running handlers any longer."""
        self._drain = timedelta(0)
        self._handlers.wake_waiting()

    async def _work_as_member(self, stop: asyncio.Event) -> None:
        """One membership: from registration to leaving, or to being declared gone."""
        member = Registration(
            queues=sorted(self._slots),
            kinds=sorted(name for name, kind in self._kinds.items() if kind.queue in self._slots),
            slots=sum(slots.size for slots in self._slots.values()),
            lease=self._lease_length,
        )
        joined = await join_fleet(self._database, member, stop, again=self.worker_id != 0)
        if joined is None:
            return
        self.worker_id = joined
        async with self._database.pool.session() as session:
            await make_partitions(session)  # before there are rows that would have to be moved into them
        self._gone.clear()
        self._handlers.stopping = False
        lease = Lease(self._lease_length)
        heartbeat = Heartbeat(
            self._database,
            Maintenance(self._database.settings, self.worker_id, self._scheduler),
            lease,
            on_first=self._begin,
            on_commands=self._obey,
            on_gone=self._gone.set,
            load=lambda: {"running": len(self._handlers), "pool": self._database.pool.state.used},
        )
        await self._share_permits(heartbeat)
        settler = Settler(self._database.pool, self.worker_id)
        claimer = Claimer(self._database, self._lanes, self.worker_id, self._limiters)
        runtime = Runtime(
            self._database.pool,
            settler,
            self.worker_id,
            self._code,
            partial(self._lanes.ids, self._database),
            self._limiters,
        )
        subscriptions = [
            self._database.notifications.subscribe(f"penstock_queue_{queue}", self._wake) for queue in self._slots
        ]
        settler.start()
        heartbeat.start()
        watching = asyncio.create_task(self._watch(heartbeat, lease, settler), name="watch")
        claiming = asyncio.create_task(self._claim_until_stopped(heartbeat, claimer, runtime), name="claim")
        ends = [asyncio.create_task(event.wait()) for event in (stop, self._gone)]
        try:
            await asyncio.wait([watching, claiming, *ends], return_when=asyncio.FIRST_COMPLETED)
            heartbeat.draining = self._handlers.stopping = True
            self._wake.set()
            if self._gone.is_set():
                await self._abandon()
            else:
                await self._take_leave(claiming, claimer, settler)
        finally:
            for task in (watching, claiming, *ends):
                task.cancel()
            results = await asyncio.gather(watching, claiming, return_exceptions=True)
            await settler.stop()
            await heartbeat.stop()
            claimer.close()
            for subscription in subscriptions:
                subscription.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _share_permits(self, heartbeat: Heartbeat) -> None:
        """Declare the limits, and let the heartbeat exchange permits."""
        async with self._database.pool.session() as session:
            await self._limiters.join(session, self.worker_id)
        if self._limiters:
            heartbeat.exchange = self._limiters.exchange
            self._limiters.obey(heartbeat.hurry)

    # -- claiming -------------------------------------------------------------------------------------------------

    async def _claim_until_stopped(self, heartbeat: Heartbeat, claimer: Claimer, runtime: Runtime) -> None:
        sure_until = time.monotonic() + RECONCILE_EVERY
        while not self._handlers.stopping:
            self._wake.clear()
            rest = POLL_IDLE
            try:
                if time.monotonic() > sure_until:
                    await self._compare(claimer, runtime.settler)
                    sure_until = time.monotonic() + RECONCILE_EVERY
                if heartbeat.first.is_set():  # before that no other worker could see us die
                    rest = await self._claim(claimer, runtime)
            except TROUBLE as error:
                log.warning("claiming failed", error=str(error))
                sure_until = 0.0  # what it took may be ours without our knowing
                await asyncio.sleep(AFTER_TROUBLE)
                rest = 0.0
            if rest and not self._handlers.stopping:
                await self._rest(rest)

    async def _compare(self, claimer: Claimer, settler: Settler) -> None:
        """Compare the table with our memory. Only this task claims, so nothing is claimed meanwhile."""
        before = set(self._handlers)
        owned = await claimer.owned()
        known = {*before, *self._handlers, *settler.unwritten()}
        known |= {(job.id, job.attempt) for slots in self._slots.values() for job in slots.buffer}
        if unknown := owned - known:
            requeued = await claimer.requeue_unknown(job_id for job_id, _ in unknown)
            log.warning("requeued jobs whose claim got no answer", jobs=requeued)
        for key in before - owned:  # taken from us, or forgotten by a server that crashed
            self._handlers.end(key, StopReason.LOST)

    async def _claim(self, claimer: Claimer, runtime: Runtime) -> float:
        """Claim once; the seconds to rest before the next claim, unless something wakes us."""
        if runtime.settler.backlog > BACKLOG_MAX:
            return SOON
        level = self._pressure.feel(self._database.pool.state)
        if self._pressure.critical:
            log.warning("not claiming: every connection of the pool is in use")
            return WATCH_EVERY
        jobs = await self._claim_quarantined(claimer, runtime.settler) if self._handlers.quarantined else []
        free = {}
        for queue, slots in self._slots.items():
            slots.measure()
            appetite = slots.appetite() - sum(job.queue == queue for job in jobs)
            if appetite > 0:
                free[queue] = max(1, int(appetite * level))
        if free:
            jobs += await claimer.claim(free)
        for queue, slots in self._slots.items():  # one that was full has not been queried, and may have more
            slots.more = queue not in free or any(job.queue == queue for job in jobs)
        for job in jobs:
            # A job that runs here already was claimed twice, because a crashed server forgot the first claim.
            if (job.id, job.attempt) not in self._handlers:
                self._slots[job.queue].buffer.append(job)
        self._handlers.start_buffered(runtime)
        if jobs:
            return 0.0
        soon = (free and claimer.contended) or (self._handlers.quarantined and not self._handlers.runs_quarantined)
        return SOON if soon else POLL_IDLE

    async def _claim_quarantined(self, claimer: Claimer, settler: Settler) -> list[Job]:
        """Only for a slot that is free now: in the buffer it would be charged for deaths in which it had no part."""
        free = [queue for queue, slots in self._slots.items() if slots.running + len(slots.buffer) < slots.size]
        if not free or self._handlers.runs_quarantined:
            return []
        quarantined = await claimer.claim_quarantined(free)
        self._handlers.quarantined = quarantined is not None or settler.holds_quarantined()
        return [quarantined] if quarantined is not None else []

    async def _rest(self, most: float) -> None:
        """Wait until a slot is free, a notification comes, or it is time to poll."""
        try:
            async with asyncio.timeout(most if self._database.notifications.arriving else min(most, POLL_DEAF)):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- watching -------------------------------------------------------------------------------------------------

    async def _watch(self, heartbeat: Heartbeat, lease: Lease, settler: Settler) -> None:
        """Timeouts, stalls and the lease, for all handlers at once: no timer per job."""
        while True:
            due = time.monotonic() + WATCH_EVERY
            await asyncio.sleep(WATCH_EVERY)
            now = heartbeat.ticked_at = time.monotonic()
            tally.loop_lag = now - due
            if lease.must_stop and not self._gone.is_set():
                log.error("the lease could not be renewed: stopping own work", worker=self.worker_id)
                self._gone.set()
            self._handlers.check(now, settler, ours=not self._gone.is_set())

    def _begin(self) -> None:
        log.info("worker started", worker=self.worker_id, queues=sorted(self._slots))
        self._wake.set()

    def _obey(self, commands: Commands) -> None:
        for job_id, attempt in commands.cancelling:
            self._handlers.end((job_id, attempt), StopReason.CANCEL)
        if commands.quarantined:
            self._handlers.quarantined = True
            self._wake.set()

    # -- ending ---------------------------------------------------------------------------------------------------

    async def _take_leave(self, claiming: "asyncio.Task[None]", claimer: Claimer, settler: Settler) -> None:
        """Requeue everything and leave; bounded, because the database may be unreachable now."""
        try:
            async with asyncio.timeout((self._drain + END_PATIENCE).total_seconds() + FAREWELL):
                await claiming  # not cancelled: what a claim has taken must become known to us
                await self._hand_back(settler)
                await settler.drain()
                await self._compare(claimer, settler)
                async with self._database.pool.session() as session:
                    await leave(session, self.worker_id)
        except (TimeoutError, *TROUBLE) as error:
            log.error("could not requeue everything: others will find it by the lock", error=str(error))

    async def _hand_back(self, settler: Settler) -> None:
        """Requeue what has not begun, wait for what runs, and requeue the rest."""
        self._limiters.note_short(())  # others may have what we would have claimed with
        for slots in self._slots.values():
            while slots.buffer:
                job = slots.buffer.popleft()
                self._limiters.end(job)
                settler.add(Settlement(job, Requeue("the worker stopped"), 0.0))
        await self._handlers.wait(lambda: self._drain)
        await self._handlers.end_all(StopReason.REQUEUE)
        self._handlers.give_up_all(settler)

    async def _abandon(self) -> None:
        """Nothing here is ours any more: end the handlers, write nothing."""
        for slots in self._slots.values():
            while slots.buffer:
                self._limiters.end(slots.buffer.popleft())
        await self._handlers.end_all(StopReason.LOST)
